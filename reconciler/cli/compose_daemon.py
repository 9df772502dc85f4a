"""The composition of a daemon: from configuration files to watches, pollers and a web server.

Belongs here: who shares what. Does not belong here: one repository's engine (`compose`), signals and logs
(`commands.run`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.cli.compose import Composition, Running, load, name_of
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.report import document
from reconciler.daemon.watch import Timing, Watch
from reconciler.errors import Fault, InvalidInput
from reconciler.ports import Builder
from reconciler.reconcile.work import ENDLESS
from reconciler.redaction import Redactor
from reconciler.settings import Web
from reconciler.web.app import application
from reconciler.web.metrics import Metrics
from reconciler.web.server import WebServer
from reconciler.web.webhook import Hook, Hooks


def compose_daemon(
    stack: ExitStack,
    configs: Sequence[Path],
    redactor: Redactor,
    wrap: Callable[[Any], Any] = lambda adapter: adapter,
) -> tuple[Daemon, WebServer | None]:
    """A daemon for all configuration files, and the web server that they ask for; neither has been started.

    `stack` closes what is opened; `wrap` may put something between the engines and each adapter. Raises InvalidInput.
    """
    metrics = Metrics(name_of(load(config)) for config in configs)
    daemon, engines = _daemon(stack, configs, redactor, metrics, wrap)
    return daemon, _web_server(daemon, engines, metrics, redactor)


def _daemon(
    stack: ExitStack,
    configs: Sequence[Path],
    redactor: Redactor,
    metrics: Metrics,
    wrap: Callable[[Any], Any],
) -> tuple[Daemon, list[Running]]:
    """All repositories' watches, and a poller for each remote that they share."""
    composition = Composition(stack, redactor, metrics.request)
    engines: list[Running] = []
    watches: list[tuple[Watch, Builder]] = []
    remotes: dict[int, tuple[Running, list[Watched]]] = {}
    for config in dict.fromkeys(path.resolve() for path in configs):
        leash = Leash()
        running = composition.engine(config, _held(leash, wrap), ENDLESS)
        source = running.settings.source
        timing = Timing(source.interval, source.resync, source.deadline)
        watch = Watch(running.name, running.engine, running.builder, running.clock, timing, leash, metrics)
        if running.observer:
            running.observer.start(partial(watch.put, Trigger.CLUSTER))
        engines.append(running)
        watches.append((watch, running.builder))
        _, watched = remotes.setdefault(id(running.repository), (running, []))
        watched.append(Watched(watch, running.revisions))
    _check_names(engines)
    pollers = []
    for running, watched in remotes.values():
        leash = Leash()
        pollers.append(Poller(leash.hold(running.repository), watched, leash))
    return Daemon(watches, pollers), engines


def _held(leash: Leash, wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda adapter: leash.hold(wrap(adapter))


def _check_names(engines: Sequence[Running]) -> None:
    """Two configurations for the same place would undo each other's work. Raises InvalidInput."""
    seen: dict[tuple[str, str], Running] = {}
    faults = []
    for one in engines:
        key = (one.name, one.settings.write_back.branch)
        if key in seen:
            what = f"watches {one.name}, as {seen[key].config} does"
            faults.append(
                Fault(str(one.config), 0, what, "leave one of them out, or give it another source.path")
            )
        seen[key] = one
    if faults:
        raise InvalidInput(faults)


def _web_server(
    daemon: Daemon, engines: Sequence[Running], metrics: Metrics, redactor: Redactor
) -> WebServer | None:
    """The web server that a configuration asks for; None when none does. Raises InvalidInput when two differ."""
    asked = [(one, one.settings.web) for one in engines if one.settings.web is not None]
    if not asked:
        return None
    first, web = asked[0]
    for other, wanted in asked[1:]:
        if wanted.listen != web.listen:
            what = f"web.listen is another address than in {first.config}"
            raise InvalidInput([Fault(str(other.config), 0, what, "one daemon has one web server")])
    hooks = Hooks(_hooks(asked), lambda _: daemon.look(), metrics, redactor, first.clock)

    def status() -> Mapping[str, Any]:
        return document(daemon.reports, os.getpid(), __version__)

    return WebServer(application(daemon, metrics, status, hooks, redactor), web.listen)


def _hooks(asked: Sequence[tuple[Running, Web]]) -> Iterator[Hook]:
    for one, web in asked:
        for hook in web.webhooks:
            folder = one.config.parent
            yield Hook(one.name, hook.type, tuple(folder / name for name in hook.secret_files))
