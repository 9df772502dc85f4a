"""Builds in a cluster as OpenShift's own `Build` objects, where `job` would make Jobs: the `openshift` form.

    JobBuilder(api, objects, registry, clock, options, takes_jobs, form=BUILDS)
    MultiArchBuilds(api, clock, namespace, instance, form=BUILDS)

Belongs here: what a Build looks like (`manifests`, `start.sh`), what it says (`reading`), how it is made and ended
(`form`), and what OpenShift makes of the settings (`limits`). Does not belong here: whatever Jobs need just the same,
which is in `job`.
"""

from reconciler.adapters.builders.openshift.form import BUILDS
from reconciler.adapters.builders.openshift.limits import inapplicable, overrides

__all__ = ["BUILDS", "inapplicable", "overrides"]
