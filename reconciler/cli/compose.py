"""The composition root: settings and the environment in, adapters and an engine out.

Belongs here: which adapter implements which port, and where caches lie. The only module that knows all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.adapters.builders.attempt import LocalOptions
from reconciler.adapters.builders.local import LocalBuilder
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.git.command import scrub
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.registry import HttpRegistry
from reconciler.cli.local import cache_folder, engine, kept
from reconciler.errors import Fault, InvalidInput
from reconciler.ports import Builder, Clock
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.targets import Scope
from reconciler.settings import Settings, read_settings

_SETTINGS_LIMIT = 1 << 20
_PASSED_ON = ("PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, slots=True)
class Running:
    """An engine with what its driver needs."""

    engine: Reconciler
    builder: Builder
    clock: Clock


@contextmanager
def reconciler(config: Path, wrap: Callable[[Any], Any] = lambda adapter: adapter) -> Iterator[Running]:
    """Everything that a configuration file asks for, ready to make passes; closed again afterwards.

    `wrap` may put something between the engine and each adapter that has side effects.
    Raises InvalidInput with all faults of the file.
    """
    settings = load(config)
    scrub(os.environ)
    cache = cache_folder()
    clock = SystemClock()
    with ExitStack() as stack:
        repository = Mirror(settings.source.url, cache / "mirrors")
        registries = stack.enter_context(_registry(settings, config.parent, clock))
        options = LocalOptions(
            directory=cache / "builds",
            env=_build_environment(),
            concurrency=settings.builder.concurrency,
            storage_driver=settings.builder.storage_driver,
            timeout=settings.builder.timeout,
            insecure=frozenset(settings.registry.insecure),
            auth_file=_auth_file(settings, config.parent),
        )
        builder = LocalBuilder(repository, options, clock)
        stack.callback(builder.close)
        place = Place(
            settings.source.branch, settings.write_back.branch, settings.source.path, settings.instance
        )
        world = World(
            repository=wrap(repository),
            registry=wrap(registries),
            builder=wrap(builder),
            clock=clock,
            history=History(repository, place.folder, engine(), kept=stack.enter_context(kept())),
            place=place,
            scope=Scope(fallback=settings.architectures),
        )
        yield Running(Reconciler(world), builder, clock)


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


def _registry(settings: Settings, folder: Path, clock: Clock) -> HttpRegistry:
    ca_file = settings.registry.ca_file
    return HttpRegistry(
        clock,
        insecure=frozenset(settings.registry.insecure),
        auth_file=_auth_file(settings, folder),
        ca_file=folder / ca_file if ca_file else None,
    )


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


def _build_environment() -> dict[str, str]:
    """What a build may see of our environment: where programs are, and the proxy."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"HOME": str(Path.home()), "PATH": os.defpath, **passed}
