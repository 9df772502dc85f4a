"""What a configuration says, as frozen values, with every default.

Belongs here: where the repository, registry and builder are, and how often to look.
Does not belong here: what decides an image's content (`core.documents.repositoryconfig`), how a file is read (`file`),
and opening any file that is named here: paths are kept as written, relative to the folder of the configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reconciler.core.model import Arch


class BuilderType(StrEnum):
    """What runs the builds."""

    LOCAL = "local"
    JOB = "job"
    """Kubernetes Jobs, each on a node of its image's architecture."""
    OPENSHIFT = "openshift"
    """The same as OpenShift's Builds."""


class StorageDriver(StrEnum):
    """How buildah stores layers; `overlay` is faster, and `vfs` works everywhere."""

    VFS = "vfs"
    OVERLAY = "overlay"


class ClusterMode(StrEnum):
    """How a cluster is reached."""

    NONE = "none"
    IN_CLUSTER = "in-cluster"
    """With the service account of the pod that this runs in."""
    KUBECONFIG = "kubeconfig"


class Vanished(StrEnum):
    """What becomes of an architecture whose last node is gone."""

    KEEP = "keep"
    """The image that it had stays in the index."""
    DROP = "drop"


class Delivery(StrEnum):
    """How nodes learn of a new image."""

    COMMIT = "commit"
    POOL_ANNOTATION = "pool-annotation"
    """Annotations of the MachineConfigPool."""
    MACHINE_CONFIG = "machine-config"
    """A MachineConfig per pool, which the Machine Config Operator rolls out."""


class Verification(StrEnum):
    """Which commits must be signed by a trusted key. Commits that change nothing but status files need not be."""

    OFF = "off"
    HEAD = "head"
    ALL = "all"
    """Everything in the history of the head, back to `since`."""


class WebhookType(StrEnum):
    """Who sends a webhook, which decides how it is signed."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    GENERIC = "generic"


class ForgeType(StrEnum):
    """Which API a forge speaks."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    """Forgejo's too."""


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """Where the watched repository's pull requests are: `url` is that of the API, `repository` its name there
    (`OWNER/NAME`). `token_file` is a file that holds one token."""

    type: ForgeType
    url: str
    repository: str
    token_file: str


@dataclass(frozen=True, slots=True)
class PreviewSettings:
    """Which open pull requests get a preview: with `forks` also those from other repositories, with a `label` only
    those that have it. `interval` is how many seconds lie between two looks at what is open; `per_author` how many
    pushes of one account are previewed in an hour."""

    interval: float = 60.0
    forks: bool = False
    label: str = ""
    per_author: int = 30


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an IPv6 host has no brackets here. Port 0 takes any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Verify:
    """`keys` is a folder of public keys (`*.asc` for OpenPGP, `*.sshpub` for SSH); `since` is the commit that is
    trusted, with all before it, '' for none."""

    mode: Verification = Verification.OFF
    keys: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """The watched repository. Of `branch`, `tag` and `commit` one counts, the last that is not ''.

    `path` is a folder in it, '' for its root. In seconds: `interval` between two looks at the head, `resync` between
    two whole passes though the head did not move, `deadline` for one pass. `credentials` is a folder of secret files,
    '' for none.
    """

    url: str
    branch: str = "main"
    tag: str = ""
    commit: str = ""
    path: str = ""
    interval: float = 60.0
    resync: float = 600.0
    deadline: float = 1800.0
    credentials: str = ""
    verify: Verify = Verify()

    @property
    def revision(self) -> str:
        """What is watched, as `ports.Repository` names it: a branch's name, `refs/tags/…` or a commit id."""
        return self.commit or (f"refs/tags/{self.tag}" if self.tag else self.branch)


@dataclass(frozen=True, slots=True)
class WriteBack:
    """Where status files are committed. `credentials` is a folder of secret files for pushing, '' for those of the
    source; `message` a template for the subject, '' for the usual one; `manifests` the folder below the status path for
    MachineConfigs that another GitOps tool applies, '' for none. `proposal` is the branch from which a pull request
    into `branch` is opened, '' for committing to `branch` itself."""

    branch: str
    credentials: str = ""
    message: str = ""
    manifests: str = ""
    proposal: str = ""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`insecure`: hosts, with their port, that speak plain HTTP or have a certificate nobody signed."""

    insecure: tuple[str, ...] = ()
    auth_file: str = ""
    ca_file: str = ""


class Privilege(StrEnum):
    """What a build's pod may do on its node."""

    ROOTLESS = "rootless"
    """User 1000, with a user namespace that buildah makes: nothing beyond the Pod Security level `baseline`."""
    USER_NAMESPACE = "user-namespace"
    """Root in a user namespace of the kubelet's (`hostUsers: false`), nobody outside."""
    ROOT = "root"
    """Root of the node's user namespace with few capabilities, for nodes that offer nothing better."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a build's pod puts up with, as `core/v1` has it; '' for what is not set."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How builds run in a cluster. `image` has buildah and a shell; it is one for all architectures.

    `requests` and `limits` are Kubernetes' quantities by resource. `ttl` is how many seconds a Job stays when it has
    ended, `attempts` how many pods it may use up. `staging` is a repository that single-architecture images are built
    to and copied from, '' for the pool's own. `trust_bundle` names a ConfigMap whose key `ca-bundle.crt` holds
    certificates to trust, '' for that of the cluster.
    """

    image: str = "quay.io/buildah/stable:v1.40"
    service_account: str = ""
    privilege: Privilege = Privilege.ROOTLESS
    tolerations: tuple[Toleration, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    requests: tuple[tuple[str, str], ...] = (("cpu", "500m"), ("memory", "1Gi"))
    limits: tuple[tuple[str, str], ...] = ()
    runtime_class: str = ""
    priority_class: str = ""
    attempts: int = 2
    ttl: float = 2 * 86400.0
    staging: str = ""
    trust_bundle: str = ""


@dataclass(frozen=True, slots=True)
class BuilderSettings:
    """`concurrency`: builds at once on this machine; `timeout`: seconds that one build may take."""

    type: BuilderType = BuilderType.LOCAL
    concurrency: int = 2
    storage_driver: StorageDriver = StorageDriver.VFS
    timeout: float = 7200.0
    job: JobSettings = JobSettings()


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`kubeconfig` and `context` are '' for the usual ones. `namespace` is where builds run; '' for that of the pod
    that this runs in, or of the context."""

    mode: ClusterMode = ClusterMode.NONE
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    vanished: Vanished = Vanished.KEEP


@dataclass(frozen=True, slots=True)
class Webhook:
    """One sender. Each of `secret_files` holds a secret that it may sign with: two while a secret is replaced."""

    type: WebhookType
    secret_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Web:
    """The web server: health, metrics, and the webhooks that are accepted."""

    listen: Address
    webhooks: tuple[Webhook, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it. `architectures` is empty when the configuration names none; `web` is None for no web server, `forge`
    where nothing needs one, `preview` for no previews on pull requests."""

    source: Source
    write_back: WriteBack
    instance: str = "default"
    registry: RegistrySettings = RegistrySettings()
    builder: BuilderSettings = BuilderSettings()
    cluster: ClusterSettings = ClusterSettings()
    architectures: tuple[Arch, ...] = ()
    deliver: tuple[Delivery, ...] = (Delivery.COMMIT,)
    web: Web | None = None
    forge: ForgeSettings | None = None
    preview: PreviewSettings | None = None
