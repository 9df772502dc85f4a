"""The Build of an image, as JSON.

Belongs here: every decision about the Build, and what OpenShift makes of it. Does not belong here: the ConfigMaps
(`inputs`), the API.

Facts (openshift/api 2a3d739: build/v1/types.go; openshift-apiserver 56aa2d9: pkg/build/apis/build/validation,
pkg/build/apiserver; openshift-controller-manager 26d20fe: pkg/build/controller, "controller" below):

- Strategy. Docker would run OpenShift's own builder and its own flags, and its source ends at 60,000 bytes of
  Containerfile (validation.go). Custom (controller/strategy/custom.go) runs one container, `custom-build`, of an image
  of ours, with the image's own command: there is none in a Build. quay.io/buildah/stable has that of Fedora's image,
  which is bash; `start.sh` says how that becomes our script. Whoever creates or changes such a Build needs the right to
  `create` `builds/custom` (admission/strategyrestrictions), which only cluster administrators have by default.
- Inputs. `source.configMaps` are mounted at /var/run/configs/openshift.io/build/NAME, `customStrategy.secrets` where
  they say, all with mode 0600 (strategy/util.go): readable by root, which stock images run as. None may be optional. A
  Build whose source names a ConfigMap or Secret that is not there stays New, and its message says which; other missing
  Secrets keep the pod from starting. So what is optional is looked for before, and the rest too (`form`).
  emptyDirs are at /var/lib/containers and /var/run/containers. The whole Build is in the variable BUILD.
- `source.type: None` is for strategies without a source of their own; `output` without `to` pushes nothing, and our
  script does. With `output.pushSecret` or `customStrategy.pullSecret` absent, the controller may mount a Secret of the
  service account elsewhere; it is not read.
- Privilege. The container is privileged and root unless its variable BUILD_PRIVILEGED is false: then it has the
  runtime's usual capabilities with SETFCAP and without KILL and MKNOD, no seccomp profile, and annotations by which
  CRI-O gives the pod a user namespace and /dev/fuse. There is no runAsUser, and no fsGroup.
- Nodes. The pod gets `nodeSelector`; the cluster's build defaults add to it only when it is empty or names nothing but
  kubernetes.io/os=linux; the cluster's build overrides replace any key but that one (controller/build/defaults,
  overrides). A Build has no tolerations, runtime class or priority class: tolerations come from
  spec.buildOverrides.tolerations of builds.config.openshift.io/cluster alone, for all builds of the cluster. Without
  one for kubernetes.io/arch, tainted nodes take no builds.
- Time. `completionDeadlineSeconds` becomes the pod's activeDeadlineSeconds, which counts from when the pod is on a
  node: a Build that waits is not ended by it. Builds without a BuildConfig are never pruned. `form` sees to both.
- One pod, never another: restartPolicy Never, no retries. It is called NAME-build, has the label
  openshift.io/build.name and none of ours, is owned by the Build, and stays until the Build is deleted.
- `spec` is immutable but for output.pushSecret. There is no status subresource: a patch of the Build sets
  `status.cancelled`, upon which the controller deletes the pod. Without a BuildConfig no run policy holds a Build back.
- The pod bears the service account's token, unless that account says `automountServiceAccountToken: false`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from reconciler.adapters.builders.job import manifests
from reconciler.adapters.builders.job.manifests import Places, Sources
from reconciler.adapters.builders.job.names import ENTITLEMENT, GPG, REPOSITORIES
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.ports import BuildRequest
from reconciler.ports.cluster import Json, Kind
from reconciler.settings import Privilege

BUILD: Final = Kind("build.openshift.io", "v1", "builds", "Build")
CONTAINER: Final = "custom-build"
PODS: Final = "openshift.io/build.name"
"""The label of every pod that the build controller makes."""
START: Final = Path(__file__).with_name("start.sh")

_ROOT: Final = Path("/build")
_CONFIG_MAPS: Final = Path("/var/run/configs/openshift.io/build")
_STORAGE: Final = Path("/var/lib/containers")
"""Where the controller mounts an emptyDir."""


def optional_secrets(request: BuildRequest) -> dict[str, str]:
    """Secrets that a build gets when they are there, by the folder that the script looks into."""
    return {"entitlement": ENTITLEMENT.format(pool=request.pool), "rpm-gpg": GPG}


def build(
    request: BuildRequest,
    options: JobOptions,
    sources: Sources,
    owners: Sequence[Mapping[str, Any]] = (),
    present: frozenset[str] = frozenset(),
) -> Json:
    """The Build that builds and pushes one image. The same values give the same JSON. `present` are the names of the
    optional ConfigMaps and Secrets that there are."""
    trust = sources.trust or (options.job.trust_bundle if options.job.trust_bundle in present else "")
    repositories = REPOSITORIES if REPOSITORIES in present else ""
    places = Places(
        input=_CONFIG_MAPS / sources.config_map,
        work=_STORAGE / "machine-os",
        secrets=_ROOT / "secrets",
        trust=_CONFIG_MAPS / trust if trust else _ROOT / "trust",
        extras=_ROOT / "extras",
    )
    more = {
        "BASH_ENV": str(places.input / START.name),
        # The controller's own word: without it the container is privileged.
        "BUILD_PRIVILEGED": "true" if options.job.privilege is Privilege.ROOT else "false",
        "JOB_REPOSITORIES": str(_CONFIG_MAPS / repositories) if repositories else "",
    }
    account = options.job.service_account
    config_maps = dict.fromkeys(name for name in (sources.config_map, trust, repositories) if name)
    return {
        "apiVersion": BUILD.api_version,
        "kind": BUILD.name,
        "metadata": manifests.metadata(request, options, owners),
        "spec": {
            **({"serviceAccount": account} if account else {}),
            "source": {"type": "None", "configMaps": [{"configMap": {"name": name}} for name in config_maps]},
            "strategy": {
                "type": "Custom",
                "customStrategy": {
                    "from": {"kind": "DockerImage", "name": options.job.image},
                    "env": manifests.environment(request, options, sources, places, **more),
                    "secrets": _secrets(request, places, present),
                },
            },
            "resources": manifests.resources(options),
            "completionDeadlineSeconds": manifests.deadline(options),
            "nodeSelector": manifests.node_selector(request, options),
        },
    }


def _secrets(request: BuildRequest, places: Places, present: frozenset[str]) -> list[Json]:
    wanted = {"push": request.push_secret, "pull": request.pull_secret}
    mounts = {places.secrets / kind: name for kind, name in wanted.items() if name}
    mounts |= {
        places.extras / folder: name for folder, name in optional_secrets(request).items() if name in present
    }
    return [{"secretSource": {"name": name}, "mountPath": str(path)} for path, name in mounts.items()]
