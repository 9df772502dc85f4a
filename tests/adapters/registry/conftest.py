"""Fixtures of the registry tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.adapters.registry import HttpRegistry
from tests.adapters.registry.support import ScriptedServer, StillClock, scripted

Connect = Callable[..., HttpRegistry]


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted() as running:
        yield running


@pytest.fixture
def connect(clock: StillClock) -> Iterator[Connect]:
    """Make clients that are closed after the test; hosts given are spoken to without verified TLS."""
    with ExitStack() as stack:

        def make(*insecure: str, auth_file: Path | None = None, ca_file: Path | None = None) -> HttpRegistry:
            client = HttpRegistry(
                clock,
                insecure=frozenset(insecure),
                auth_file=auth_file,
                ca_file=ca_file,
                timeout=0.5,
                jitter=random.Random(7),  # noqa: S311
            )
            return stack.enter_context(client)

        yield make
