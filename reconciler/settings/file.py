"""Reading a configuration file: the keys that it may have, and what each must be.

Belongs here: the file's shape, and rules between keys. Does not belong here: single values (`rules`), defaults that
code relies on (`values`), and opening files.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final

from pydantic import AfterValidator, Field, PlainValidator

from reconciler.core.documents.shape import Strict, at_place, check, one_of, only_document
from reconciler.core.documents.values import (
    Architectures,
    DnsLabel,
    DnsSubdomain,
    Duration,
    Folder,
    distinct,
    from_text,
)
from reconciler.core.model import API_VERSION
from reconciler.core.yaml import Document
from reconciler.errors import Fault, InvalidInput
from reconciler.settings import rules
from reconciler.settings.values import (
    Address,
    BuilderSettings,
    BuilderType,
    ClusterMode,
    ClusterSettings,
    Delivery,
    ForgeSettings,
    ForgeType,
    JobSettings,
    PreviewSettings,
    Privilege,
    RegistrySettings,
    Settings,
    Source,
    StorageDriver,
    Toleration,
    Vanished,
    Verification,
    Verify,
    Web,
    Webhook,
    WebhookType,
    WriteBack,
)

KIND: Final = "ReconcilerConfig"


def read_settings(content: bytes, path: str) -> Settings:
    """Raises InvalidInput with all faults of the file."""
    document = only_document(content, path, API_VERSION, KIND)
    file, faults = check(_File, document)
    if file is not None:
        faults = list(_between(file, document))
    if file is None or faults:
        raise InvalidInput(set(faults))
    registry = file.registry
    return Settings(
        source=_source(file.source),
        write_back=WriteBack(
            file.write_back.branch or file.source.branch,
            file.write_back.credentials,
            file.write_back.message,
            file.write_back.manifests,
            _proposal(file),
        ),
        instance=file.instance,
        registry=RegistrySettings(tuple(registry.insecure), registry.auth_file, registry.ca_file),
        builder=_builder(file.builder),
        cluster=_cluster(file.cluster),
        architectures=tuple(file.architectures),
        deliver=tuple(file.deliver),
        web=_web(file.web) if file.web else None,
        forge=_forge(file.forge) if file.forge else None,
        preview=_preview(file.preview) if file.preview else None,
    )


def _source(found: _Source) -> Source:
    verify = found.verify
    return Source(
        found.url,
        found.branch,
        found.tag,
        found.commit,
        found.path,
        found.interval,
        found.resync,
        found.deadline,
        found.credentials,
        Verify(verify.mode, verify.keys, verify.since),
    )


def _forge(found: _Forge) -> ForgeSettings:
    return ForgeSettings(found.type, found.url, found.repository, found.token_file)


def _preview(found: _Preview) -> PreviewSettings:
    return PreviewSettings(found.interval, found.forks, found.label, found.per_author)


def _proposal(file: _File) -> str:
    """The branch of pull requests; '' for none. Unless it is named, its name is made of all that tells one daemon's
    from another's: instance, folder and target. A DNS label has no dot, so no two of them can meet."""
    request, back, source = file.write_back.pull_request, file.write_back, file.source
    if request is None:
        return ""
    folder = f".{sha256(source.path.encode()).hexdigest()[:8]}" if source.path else ""
    return request.branch or f"reconciler/{file.instance}{folder}/{back.branch or source.branch}"


def _builder(found: _Builder) -> BuilderSettings:
    job = found.job
    tolerations = (Toleration(t.key, t.operator, t.value, t.effect or "") for t in job.tolerations)
    return BuilderSettings(
        found.type,
        found.concurrency,
        found.storage_driver,
        found.timeout,
        JobSettings(
            image=job.image,
            service_account=job.service_account,
            privilege=job.privilege,
            tolerations=tuple(tolerations),
            node_selector=tuple(sorted(job.node_selector.items())),
            requests=tuple(sorted(job.resources.requests.items())),
            limits=tuple(sorted(job.resources.limits.items())),
            runtime_class=job.runtime_class,
            priority_class=job.priority_class,
            attempts=job.attempts,
            ttl=job.ttl,
            staging=job.staging,
            trust_bundle=job.trust_bundle,
        ),
    )


def _cluster(found: _Cluster) -> ClusterSettings:
    return ClusterSettings(found.mode, found.kubeconfig, found.context, found.namespace, found.vanished)


def _web(found: _Web) -> Web:
    return Web(found.listen, tuple(Webhook(hook.type, tuple(hook.secret_files)) for hook in found.webhooks))


def _between(file: _File, document: Document) -> Iterator[Fault]:
    """What is wrong between keys that are right by themselves."""
    source = file.source
    named = [name for name in ("branch", "tag", "commit") if name in source.model_fields_set]
    if len(named) > 1:
        hint = "keep the one that is to be watched"
        yield at_place(document, ("source", named[1]), f"cannot stand beside {named[0]}", hint)
    elif named and named != ["branch"] and not file.write_back.branch:
        hint = "add writeBack: {branch: …}: nothing can be committed to a tag or to a commit"
        yield at_place(document, ("source", named[0]), "needs a branch to write to", hint)
    yield from _around_requests(file, document)
    if file.preview is not None:
        if file.forge is None:
            hint = "add forge: {type: …, url: …, repository: …, tokenFile: …}"
            yield at_place(document, ("preview",), "needs a forge", hint)
        if named and named != ["branch"]:
            hint = "leave it out, or watch a branch: pull requests are merged into branches"
            yield at_place(document, ("preview",), f"has no meaning beside source.{named[0]}", hint)
    if source.verify.mode is not Verification.OFF and not source.verify.keys:
        hint = "name the folder of the public keys that are trusted"
        yield at_place(document, ("source", "verify"), "has a mode and no keys", hint)
    if file.cluster.mode is ClusterMode.NONE:
        for at, needs in (
            (("builder", "type"), file.builder.type is not BuilderType.LOCAL),
            (("deliver",), any(way is not Delivery.COMMIT for way in file.deliver)),
        ):
            if needs:
                hint = "add cluster: {mode: in-cluster} or cluster: {mode: kubeconfig}"
                yield at_place(document, at, "needs a cluster", hint)
    elif file.cluster.mode is not ClusterMode.KUBECONFIG:
        for name in file.cluster.model_fields_set & {"kubeconfig", "context"}:
            hint = "leave it out, or set mode: kubeconfig"
            yield at_place(document, ("cluster", name), "has no meaning in this mode", hint)
    for number, toleration in enumerate(file.builder.job.tolerations):
        if not toleration.key and toleration.operator is not _Operator.EXISTS:
            place = ("builder", "job", "tolerations", number)
            yield at_place(document, place, "names no key", "only operator: Exists may leave the key out")
    types = [hook.type for hook in file.web.webhooks] if file.web else []
    for number, sender in enumerate(types):
        if sender in types[:number]:
            hint = "put its secret files beside those of the first"
            yield at_place(document, ("web", "webhooks", number), f"is the second of type {sender}", hint)


def _around_requests(file: _File, document: Document) -> Iterator[Fault]:
    """What is wrong with writing back by pull requests."""
    request, back = file.write_back.pull_request, file.write_back
    if request is None:
        return
    if file.forge is None:
        hint = "add forge: {type: …, url: …, repository: …, tokenFile: …}"
        yield at_place(document, ("writeBack", "pullRequest"), "needs a forge", hint)
    if request.branch and request.branch in (back.branch, file.source.branch):
        hint = "leave it out, or name a branch that is the reconciler's alone: it is overwritten"
        place = ("writeBack", "pullRequest", "branch")
        yield at_place(document, place, "is a branch that requests are to be merged into", hint)


class _ApiVersion(StrEnum):
    V1ALPHA1 = API_VERSION


class _Kind(StrEnum):
    RECONCILER_CONFIG = KIND


_Branch = Annotated[str, AfterValidator(rules.branch)]
_Commit = Annotated[str, AfterValidator(rules.commit)]
_FileName = Annotated[str, AfterValidator(rules.file_name)]
_Type = Annotated[BuilderType, PlainValidator(one_of(BuilderType))]
_Mode = Annotated[ClusterMode, PlainValidator(one_of(ClusterMode))]
_Deliver = Annotated[Delivery, PlainValidator(one_of(Delivery, later=("nodepool",)))]


class _Verify(Strict):
    mode: Annotated[Verification, PlainValidator(one_of(Verification))] = Verification.OFF
    keys: _FileName = ""
    since: _Commit = ""


class _Source(Strict):
    url: Annotated[str, AfterValidator(rules.url)]
    branch: _Branch = "main"
    tag: Annotated[str, AfterValidator(rules.tag)] = ""
    commit: _Commit = ""
    path: Folder = ""
    interval: Duration = 60.0
    resync: Duration = 600.0
    deadline: Duration = 1800.0
    credentials: _FileName = ""
    verify: _Verify = _Verify()


class _PullRequest(Strict):
    branch: _Branch = ""


class _WriteBack(Strict):
    branch: _Branch = ""
    credentials: _FileName = ""
    message: Annotated[str, AfterValidator(rules.message)] = ""
    manifests: Folder = ""
    pull_request: _PullRequest | None = None


class _Registry(Strict):
    insecure: list[Annotated[str, AfterValidator(rules.registry_host)]] = Field(default_factory=list)
    auth_file: _FileName = ""
    ca_file: _FileName = ""


_Quantities = dict[
    Annotated[str, AfterValidator(rules.label_key)], Annotated[str, AfterValidator(rules.quantity)]
]
_LabelKey = Annotated[str, AfterValidator(rules.label_key)]
_LabelValue = Annotated[str, AfterValidator(rules.label_value)]


class _Operator(StrEnum):
    EXISTS = "Exists"
    EQUAL = "Equal"


class _Effect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class _Toleration(Strict):
    key: _LabelKey = ""
    operator: Annotated[_Operator, PlainValidator(one_of(_Operator))] = _Operator.EQUAL
    value: _LabelValue = ""
    effect: Annotated[_Effect, PlainValidator(one_of(_Effect))] | None = None


class _Resources(Strict):
    requests: _Quantities = Field(default_factory=lambda: dict(JobSettings().requests))
    limits: _Quantities = Field(default_factory=dict)


class _Job(Strict):
    image: Annotated[str, AfterValidator(rules.image)] = JobSettings().image
    service_account: DnsSubdomain = ""
    privilege: Annotated[Privilege, PlainValidator(one_of(Privilege))] = Privilege.ROOTLESS
    tolerations: list[_Toleration] = Field(default_factory=list)
    node_selector: dict[_LabelKey, _LabelValue] = Field(default_factory=dict)
    resources: _Resources = _Resources()
    runtime_class: DnsSubdomain = ""
    priority_class: DnsSubdomain = ""
    attempts: Annotated[int, AfterValidator(rules.attempts)] = JobSettings().attempts
    ttl: Duration = JobSettings().ttl
    staging: Annotated[str, AfterValidator(rules.repository)] = ""
    trust_bundle: DnsSubdomain = ""


class _Builder(Strict):
    type: _Type = BuilderType.LOCAL
    concurrency: Annotated[int, AfterValidator(rules.at_once)] = 2
    storage_driver: Annotated[StorageDriver, PlainValidator(one_of(StorageDriver))] = StorageDriver.VFS
    timeout: Duration = 7200.0
    job: _Job = _Job()


class _Cluster(Strict):
    mode: _Mode = ClusterMode.NONE
    kubeconfig: _FileName = ""
    context: Annotated[str, AfterValidator(rules.context)] = ""
    namespace: DnsLabel = ""
    vanished: Annotated[Vanished, PlainValidator(one_of(Vanished))] = Vanished.KEEP


class _Webhook(Strict):
    type: Annotated[WebhookType, PlainValidator(one_of(WebhookType))]
    secret_files: Annotated[list[_FileName], AfterValidator(distinct)]


class _Web(Strict):
    listen: Annotated[Address, from_text(rules.address)]
    webhooks: list[_Webhook] = Field(default_factory=list)


class _Forge(Strict):
    type: Annotated[ForgeType, PlainValidator(one_of(ForgeType))]
    url: Annotated[str, AfterValidator(rules.api_url)]
    repository: Annotated[str, AfterValidator(rules.forge_repository)]
    token_file: _FileName


class _Preview(Strict):
    interval: Duration = PreviewSettings().interval
    forks: bool = PreviewSettings().forks
    label: Annotated[str, AfterValidator(rules.forge_label)] = ""
    per_author: Annotated[int, AfterValidator(rules.per_author)] = PreviewSettings().per_author


class _File(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    source: _Source
    instance: DnsLabel = "default"
    write_back: _WriteBack = _WriteBack()
    registry: _Registry = _Registry()
    builder: _Builder = _Builder()
    cluster: _Cluster = _Cluster()
    architectures: Architectures = Field(default_factory=list)
    deliver: Annotated[list[_Deliver], AfterValidator(distinct)] = Field(
        default_factory=lambda: [Delivery.COMMIT]
    )
    web: _Web | None = None
    forge: _Forge | None = None
    preview: _Preview | None = None
