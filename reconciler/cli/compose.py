"""The composition root: settings and the environment in, adapters and an engine out.

Belongs here: which adapter implements which port, and where caches lie. The only module that knows all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.adapters.builders.attempt import LocalOptions
from reconciler.adapters.builders.local import LocalBuilder
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.git.command import scrub
from reconciler.adapters.git.failures import mask
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.signatures import GitSignatures
from reconciler.adapters.registry import HttpRegistry
from reconciler.cli.local import cache_folder, engine, kept
from reconciler.errors import Fault, InvalidInput
from reconciler.ports import Builder, Clock, Objects, OnRequest, Registry
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.targets import Scope
from reconciler.reconcile.trust import Checked, Trust
from reconciler.reconcile.work import BRIEF, Patience
from reconciler.redaction import Redactor
from reconciler.settings import (
    BuilderType,
    ClusterMode,
    Delivery,
    ForgeType,
    Settings,
    Vanished,
    Verification,
    read_settings,
)

if TYPE_CHECKING:  # loaded only where a cluster, or a forge, is configured
    from reconciler.adapters.cluster.observer import ClusterObserver
    from reconciler.adapters.forge import Dialect, HttpForge
    from reconciler.cli.compose_cluster import ClusterParts

_SETTINGS_LIMIT = 1 << 20
_PASSED_ON = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, slots=True)
class Running:
    """One repository's engine with what its driver needs. `revisions` are those that a pass rests on."""

    config: Path
    settings: Settings
    engine: Reconciler
    repository: Mirror
    builder: Builder
    clock: Clock
    observer: ClusterObserver | None = None

    @property
    def name(self) -> str:
        """What logs and metrics call it."""
        return name_of(self.settings)

    @property
    def revisions(self) -> tuple[str, ...]:
        """What a pass rests on: the source, the branch that the status is on, and that of our pull requests."""
        back = self.settings.write_back
        names = (self.settings.source.revision, back.branch, back.proposal)
        return tuple(dict.fromkeys(filter(None, names)))


class Composition:
    """Makes engines from configuration files. Those of one process share mirrors and the cache."""

    def __init__(self, stack: ExitStack, redactor: Redactor, on_request: OnRequest = lambda _: None) -> None:
        """`stack` closes everything that is opened here."""
        scrub(os.environ)
        self._stack = stack
        self._redactor = redactor
        self._on_request = on_request
        self._clock = SystemClock()
        self._mirrors: dict[tuple[str, str, str], Mirror] = {}

    def engine(
        self, config: Path, wrap: Callable[[Any], Any] = lambda adapter: adapter, patience: Patience = BRIEF
    ) -> Running:
        """Everything that a configuration file asks for, ready to make passes.

        `wrap` may put something between the engine and each adapter. Raises InvalidInput with all faults of the file.
        """
        settings, folder = load(config), config.parent
        repository = self._mirror(settings, folder)
        registries = self._stack.enter_context(self._registry(settings, folder))
        parts = self._cluster(settings, folder)
        builder = self._builder(settings, folder, parts, repository, registries)
        self._stack.callback(builder.close)
        source, back = settings.source, settings.write_back
        held = wrap(repository)
        world = World(
            repository=held,
            registry=wrap(registries),
            builder=wrap(builder),
            clock=self._clock,
            history=History(held, source.path, engine(), kept=self._stack.enter_context(kept())),
            place=Place(
                source.revision,
                back.branch,
                source.path,
                settings.instance,
                back.message,
                back.manifests,
                back.proposal,
            ),
            scope=Scope(fallback=settings.architectures, keep=settings.cluster.vanished is Vanished.KEEP),
            trust=_trust(settings, folder, repository, held),
            cluster=wrap(parts.observer) if parts else None,
            reporters=tuple(map(wrap, parts.reporters)) if parts else (),
            deliveries=tuple(map(wrap, parts.deliveries)) if parts else (),
            rollouts=wrap(parts.rollouts) if parts else None,
            rolls_out=Delivery.MACHINE_CONFIG in settings.deliver or bool(back.manifests),
            staging="" if settings.builder.type is BuilderType.LOCAL else settings.builder.job.staging,
            forge=wrap(self.forge(settings, folder)) if back.proposal else None,
        )
        return Running(
            config,
            settings,
            Reconciler(world, patience),
            repository,
            builder,
            self._clock,
            parts.observer if parts else None,
        )

    def forge(self, settings: Settings, folder: Path) -> HttpForge:
        """The forge that a configuration names, open. Raises ForgeError."""
        return self._stack.enter_context(self.unopened_forge(settings, folder, self._clock))

    def unopened_forge(self, settings: Settings, folder: Path, clock: Clock) -> HttpForge:
        """The same for somebody who closes it by himself; its waits go through `clock`. Raises ForgeError."""
        from reconciler.adapters.forge import HttpForge
        from reconciler.adapters.forge.token import TokenFile

        named = settings.forge
        assert named is not None, "the file's rules see to it"
        return HttpForge(
            dialect(named.type, named.repository),
            named.url,
            TokenFile(folder.absolute() / named.token_file, self._redactor),
            clock,
            redactor=self._redactor,
            on_request=self._on_request,
        )

    def _cluster(self, settings: Settings, folder: Path) -> ClusterParts | None:
        """The cluster that a configuration names; None for none. Raises ClusterError."""
        if settings.cluster.mode is ClusterMode.NONE:
            return None
        from reconciler.cli.compose_cluster import cluster_parts

        return cluster_parts(
            self._stack, settings, folder, dict(os.environ), self._clock, self._redactor, self._on_request
        )

    def _builder(
        self,
        settings: Settings,
        folder: Path,
        parts: ClusterParts | None,
        objects: Objects,
        registry: Registry,
    ) -> Builder:
        if settings.builder.type is BuilderType.LOCAL or parts is None:
            return LocalBuilder(objects, _options(settings, folder), self._clock)
        from reconciler.cli.compose_cluster import job_builder

        return job_builder(parts, settings, dict(os.environ), objects, registry, self._clock)

    def _mirror(self, settings: Settings, folder: Path) -> Mirror:
        """The mirror of a URL: one for all who read and write it in the same way."""
        key = (settings.source.url, settings.source.credentials, settings.write_back.credentials)
        if key not in self._mirrors:
            self._mirrors[key] = Mirror(
                settings.source.url,
                cache_folder() / "mirrors",
                credentials=_below(folder, settings.source.credentials),
                push_credentials=_below(folder, settings.write_back.credentials),
                redactor=self._redactor,
                on_request=self._on_request,
            )
        return self._mirrors[key]

    def pull_requests(self, settings: Settings, folder: Path) -> Mirror:
        """A mirror for what strangers push, apart from that which images are built from: whatever is in it, and
        however long it takes to fetch, the other one is neither filled nor held up. Raises GitError."""
        return Mirror(
            settings.source.url,
            cache_folder() / "previews",
            credentials=_below(folder, settings.source.credentials),
            redactor=self._redactor,
            on_request=self._on_request,
        )

    def _registry(self, settings: Settings, folder: Path) -> HttpRegistry:
        return _registry(settings, folder, self._clock, self._redactor, self._on_request)


def dialect(kind: ForgeType, repository: str) -> Dialect:
    """How a repository on a kind of forge is asked about. Raises ForgeError."""
    from reconciler.adapters.forge import Gitea, GitHub, GitLab

    dialects: dict[ForgeType, Callable[[str], Dialect]] = {
        ForgeType.GITEA: Gitea,
        ForgeType.GITHUB: GitHub,
        ForgeType.GITLAB: GitLab,
    }
    return dialects[kind](repository)


def name_of(settings: Settings) -> str:
    """What logs and metrics call a watched repository: `URL[//FOLDER]@REVISION`."""
    source = settings.source
    return f"{mask(source.url)}{f'//{source.path}' if source.path else ''}@{source.revision}"


@contextmanager
def reconciler(config: Path, wrap: Callable[[Any], Any] = lambda adapter: adapter) -> Iterator[Running]:
    """One engine, as `Composition.engine`; closed again afterwards."""
    with ExitStack() as stack:
        yield Composition(stack, Redactor()).engine(config, wrap)


def load(config: Path) -> Settings:
    """Read a configuration file. Raises InvalidInput."""
    try:
        with config.open("rb") as file:
            content = file.read(_SETTINGS_LIMIT + 1)
    except OSError as error:
        raise InvalidInput([Fault(str(config), 0, f"cannot be read: {error.strerror}")]) from error
    return read_settings(content, str(config))


def registry(config: Path | None) -> HttpRegistry:
    """Registries as a configuration file says, or else with what this user has for other container tools."""
    if config is None:
        return HttpRegistry(SystemClock(), auth_file=_default_auth_file())
    return _registry(load(config), config.parent, SystemClock())


def _registry(
    settings: Settings,
    folder: Path,
    clock: Clock,
    redactor: Redactor | None = None,
    on_request: OnRequest = lambda _: None,
) -> HttpRegistry:
    return HttpRegistry(
        clock,
        insecure=frozenset(settings.registry.insecure),
        auth_file=_auth_file(settings, folder),
        ca_file=_below(folder, settings.registry.ca_file),
        redactor=redactor,
        on_request=on_request,
    )


def _options(settings: Settings, folder: Path) -> LocalOptions:
    return LocalOptions(
        directory=cache_folder() / "builds",
        env=_environment(),
        concurrency=settings.builder.concurrency,
        storage_driver=settings.builder.storage_driver,
        timeout=settings.builder.timeout,
        insecure=frozenset(settings.registry.insecure),
        auth_file=_auth_file(settings, folder),
    )


def _trust(settings: Settings, folder: Path, repository: Mirror, objects: Objects) -> Trust | None:
    """Who must have signed the commits; None when nobody."""
    verify = settings.source.verify
    if verify.mode is Verification.OFF:
        return None
    signatures = GitSignatures(repository, folder.absolute() / verify.keys, _environment())
    return Trust(objects, signatures, Checked(verify.mode.value), verify.since)


def _below(folder: Path, name: str) -> Path | None:
    """A path as a configuration file in `folder` means it; None for none."""
    return folder.absolute() / name if name else None


def _auth_file(settings: Settings, folder: Path) -> Path | None:
    named = settings.registry.auth_file
    return (folder / named).absolute() if named else _default_auth_file()


def _default_auth_file() -> Path | None:
    """Where podman, buildah and docker keep credentials, in the order buildah looks."""
    places = [os.environ.get("REGISTRY_AUTH_FILE")]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places.append(f"{runtime}/containers/auth.json" if runtime else None)
    places.append(os.environ.get("DOCKER_CONFIG") and f"{os.environ['DOCKER_CONFIG']}/config.json")
    places.append(str(Path.home() / ".docker" / "config.json"))
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def _environment() -> dict[str, str]:
    """What programs may see of our environment: where others are, and the proxy."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"HOME": str(Path.home()), "PATH": os.defpath, **passed}
