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
from reconciler.cli.compose_previews import Tapped, previewer
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.durations import Durations
from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.observer import Observer, all_of
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.previews import Previewer
from reconciler.daemon.report import document
from reconciler.daemon.watch import Engine, Timing, Watch
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
    previewers: dict[Watch, Previewer] = {}
    remotes: dict[int, tuple[Running, list[Watched]]] = {}
    for config in dict.fromkeys(path.resolve() for path in configs):
        leash = Leash()
        running = composition.engine(config, _held(leash, wrap), ENDLESS)
        source = running.settings.source
        timing = Timing(source.interval, source.resync, source.deadline)
        engine: Engine = running.engine
        observer: Observer = metrics
        preview = _previewer(composition, running, metrics)
        if preview:
            engine, observer = Tapped(engine, preview.planned), all_of(metrics, preview.durations)
        watch = Watch(running.name, engine, running.builder, running.clock, timing, leash, observer)
        if preview:
            previewers[watch] = preview
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
    return Daemon(watches, pollers, previewers), engines


def _previewer(composition: Composition, running: Running, metrics: Metrics) -> Previewer | None:
    """What shows previews of a repository, where its configuration asks for them."""
    asked = running.settings.preview
    return previewer(composition, running, asked, Durations(), metrics.previewed) if asked else None


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
    faults += _shared_branches(engines)
    if faults:
        raise InvalidInput(faults)


def _shared_branches(engines: Sequence[Running]) -> Iterator[Fault]:
    """Branches of pull requests that two configurations would overwrite for each other."""
    seen: dict[tuple[str, str], Running] = {}
    for one in engines:
        key = (one.settings.source.url, one.settings.write_back.proposal)
        if key[1] and key in seen:
            what = f"opens pull requests from {key[1]}, as {seen[key].config} does"
            hint = "leave writeBack.pullRequest.branch out, or name another one"
            yield Fault(str(one.config), 0, what, hint)
        seen[key] = one


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
    shows = any(one.settings.preview for one in engines)
    hooks = Hooks(
        _hooks(asked),
        lambda _: daemon.look(),
        metrics,
        redactor,
        first.clock,
        look_at_pulls=(lambda _: daemon.look_at_pulls()) if shows else None,
    )

    def status() -> Mapping[str, Any]:
        return document(daemon.reports, os.getpid(), __version__)

    return WebServer(application(daemon, metrics, status, hooks, redactor), web.listen)


def _hooks(asked: Sequence[tuple[Running, Web]]) -> Iterator[Hook]:
    for one, web in asked:
        for hook in web.webhooks:
            folder = one.config.parent
            yield Hook(one.name, hook.type, tuple(folder / name for name in hook.secret_files))
