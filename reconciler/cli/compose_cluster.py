"""The composition of what needs a cluster: its observer, builds as Jobs, and where pools are shown.

Belongs here: which adapter gets which settings. Does not belong here: anything that runs without a cluster: this module
is imported only where one is configured, since the client takes its time to load.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from reconciler.adapters.builders.job import JobBuilder, JobOptions, MultiArchBuilds
from reconciler.adapters.builders.job.form import JOBS, Form
from reconciler.adapters.builders.job.names import MULTI_ARCH_BUILD
from reconciler.adapters.builders.openshift import BUILDS, inapplicable, overrides
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import connect
from reconciler.adapters.cluster.kinds import MACHINE_CONFIG_POOLS
from reconciler.adapters.cluster.nodes import Placement
from reconciler.adapters.cluster.observer import ClusterObserver
from reconciler.adapters.cluster.recall import Recall
from reconciler.adapters.cluster.rollout import RolloutReader
from reconciler.adapters.delivery.machine_config import MachineConfigs
from reconciler.adapters.delivery.pool_annotation import PoolAnnotations
from reconciler.errors import ClusterError
from reconciler.ports import Clock, Objects, OnRequest, Registry
from reconciler.ports.cluster import Delivery as PoolDelivery
from reconciler.ports.cluster import Reporter
from reconciler.redaction import Redactor
from reconciler.settings import BuilderType, Delivery, Settings

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_OF_EVERY_POOL = (MACHINE_CONFIG_POOLS, MULTI_ARCH_BUILD)
"""Kinds of which each pool has its own, so that a pass looks at all of them at once."""
_POLL = 5.0
"""Seconds between two looks at the Jobs: builds take minutes, and a list is cheap."""


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """A cluster that was connected to, and what is told to it."""

    api: KubernetesApi
    observer: ClusterObserver
    namespace: str
    reporters: tuple[Reporter, ...]
    deliveries: tuple[PoolDelivery, ...]
    rollouts: RolloutReader


def cluster_parts(
    stack: ExitStack,
    settings: Settings,
    folder: Path,
    environ: dict[str, str],
    clock: Clock,
    redactor: Redactor,
    on_request: OnRequest,
) -> ClusterParts:
    """Connect to the cluster of a configuration in `folder`. Raises ClusterError when nothing says which namespace is
    ours, or who we are."""
    wanted = settings.cluster
    if wanted.kubeconfig:
        wanted = replace(wanted, kubeconfig=str(folder.absolute() / wanted.kubeconfig))
    connection = connect(wanted, environ, redactor)
    stack.callback(connection.close)
    api = KubernetesApi(connection, clock, redactor, on_request=on_request)
    namespace = connection.namespace
    recall = Recall(api, _OF_EVERY_POOL)
    observer = ClusterObserver(
        api,
        namespace,
        clock,
        settings.builder.job,
        on_observe=recall.begin,
        placement=partial(_placement, api, settings)
        if settings.builder.type is BuilderType.OPENSHIFT
        else None,
    )
    stack.callback(observer.close)
    reporters: list[Reporter] = []
    deliveries: list[PoolDelivery] = []
    if settings.builder.type is not BuilderType.LOCAL:
        reporters.append(MultiArchBuilds(recall, clock, namespace, settings.instance, form_of(settings)))
    if Delivery.POOL_ANNOTATION in settings.deliver:
        deliveries.append(PoolAnnotations(recall))
    if Delivery.MACHINE_CONFIG in settings.deliver:
        deliveries.append(MachineConfigs(recall, clock, settings.instance))
    return ClusterParts(
        api, observer, namespace, (*reporters, *deliveries), tuple(deliveries), RolloutReader(api)
    )


def job_builder(
    parts: ClusterParts,
    settings: Settings,
    environ: dict[str, str],
    objects: Objects,
    registry: Registry,
    clock: Clock,
) -> JobBuilder:
    """Builds as Jobs of a cluster, or as Builds of OpenShift."""
    options = JobOptions(
        parts.namespace,
        settings.instance,
        settings.builder.job,
        settings.builder.timeout,
        settings.builder.storage_driver,
        frozenset(settings.registry.insecure),
        {name: environ[name] for name in _PROXIES if name in environ},
        _POLL,
    )
    takes_jobs = parts.observer.takes_jobs
    return JobBuilder(parts.api, objects, registry, clock, options, takes_jobs, form_of(settings))


def _placement(api: KubernetesApi, settings: Settings) -> Placement:
    """Where the cluster lets Builds of OpenShift run. Raises ClusterUnavailable, ClusterError."""
    imposed = overrides(api)
    return Placement(imposed.tolerations, settings.builder.job.node_selector, imposed.node_selector)


def form_of(settings: Settings) -> Form:
    """As which objects builds run. Raises ClusterError for settings that these have no place for."""
    if settings.builder.type is BuilderType.JOB:
        return JOBS
    unfit = inapplicable(settings.builder.job)
    if unfit:
        keys = ", ".join(f"builder.job.{key}" for key in unfit)
        raise ClusterError(
            f"a Build of OpenShift has no place for {keys}",
            hint="leave them out, or set builder.type: job",
        )
    return BUILDS
