"""Builds in a cluster: each image as a Kubernetes Job on a node of its architecture, and the objects that show them.

Belongs here: Jobs and what they need (`manifests`, `inputs`, `archive`, `job.sh`), what they come to (`reading`,
`failures`), the builder over them (`builder`), and the `MultiArchBuild` of each pool (`rendering`, `multiarchbuild`).
Does not belong here: a Kubernetes client (an `Api` is given), or how buildah is called (`build.sh`, for all builders).
"""

from reconciler.adapters.builders.job.builder import JobBuilder
from reconciler.adapters.builders.job.multiarchbuild import MultiArchBuilds
from reconciler.adapters.builders.job.options import JobOptions

__all__ = ["JobBuilder", "JobOptions", "MultiArchBuilds"]
