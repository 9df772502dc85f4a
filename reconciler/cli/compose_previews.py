"""The composition of previews: what their thread works with, and what tells it of the daemon's own work.

Belongs here: which adapter implements which port for them. Does not belong here: who shares what in a daemon
(`compose_daemon`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from reconciler.adapters.kept import KeptInFile
from reconciler.cli.compose import Composition, Running
from reconciler.cli.local import cache_folder, engine, kept
from reconciler.core.plan import Plan
from reconciler.daemon.durations import Durations
from reconciler.daemon.gate import Allowance, Gate, Rules
from reconciler.daemon.leash import Leash
from reconciler.daemon.previews import Previewer, Tell, Workplace
from reconciler.daemon.watch import Engine
from reconciler.errors import ClusterUnavailable
from reconciler.reconcile.history import History
from reconciler.reconcile.previewing import Desk
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.targets import Scope
from reconciler.settings import PreviewSettings, Vanished

_LOG: Final = logging.getLogger(__name__)
_EDITION: Final = "1"
"""Of what is kept between two runs, whatever code wrote it."""


def previewer(
    composition: Composition, running: Running, asked: PreviewSettings, durations: Durations, tell: Tell
) -> Previewer:
    """What shows previews of one repository. Nothing is opened before its thread runs."""
    leash = Leash()

    @contextmanager
    def workplace() -> Iterator[Workplace]:
        settings, folder = running.settings, running.config.parent
        assert settings.forge is not None, "the file's rules see to it"
        repository = leash.hold(composition.pull_requests(settings, folder))
        with (
            composition.unopened_forge(settings, folder, leash.clock(running.clock)) as forge,
            KeptInFile(cache_folder() / "previews.sqlite", _EDITION) as notes,
            kept() as plans,
        ):
            # What is kept of plans does not know of nodes.
            useful = None if running.observer else plans
            whose = f"previews of {settings.source.url}"
            history = History(repository, settings.source.path, engine(), useful, whose)
            desk = Desk(
                repository=repository,
                history=history,
                forge=leash.hold(forge),
                target=settings.source.branch,
                kind=settings.forge.type.value,
                instance=settings.instance,
                scope=lambda: _scope(running),
            )
            yield Workplace(desk, notes)

    rules = Rules(Gate(asked.forks, asked.label), Allowance(asked.per_author), asked.interval)
    return Previewer(running.name, workplace, rules, running.clock, leash, durations, tell)


def _scope(running: Running) -> Scope:
    """What the daemon plans with, as far as it is known without asking anybody. Raises ClusterUnavailable."""
    settings = running.settings
    scope = Scope(fallback=settings.architectures, keep=settings.cluster.vanished is Vanished.KEEP)
    if running.observer is None:
        return scope
    seen = running.observer.glance()
    if seen is None:
        raise ClusterUnavailable("nobody has looked at the cluster yet", hint="this is tried again")
    own = running.observer.images
    return replace(scope, nodes=seen.pools, os_image=own.os_image, extensions_image=own.extensions_image)


class Tapped:
    """Implements `watch.Engine`: the same engine, whose plans are heard by somebody else too."""

    def __init__(self, engine: Engine, hear: Callable[[Plan], None]) -> None:
        self._engine = engine
        self._hear = hear

    def run_pass(
        self,
        announce: Callable[[Plan], None] = lambda _: None,
        *,
        one_commit: bool = False,
        insist: bool = False,
        thorough: bool = True,
    ) -> Result:
        """As the engine's. The daemon itself hears of a plan first."""

        def both(plan: Plan) -> None:
            announce(plan)
            try:
                self._hear(plan)
            except Exception:  # whatever listens, the pass goes on
                _LOG.exception("hearing of a plan failed")

        return self._engine.run_pass(both, one_commit=one_commit, insist=insist, thorough=thorough)
