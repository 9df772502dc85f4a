"""A forge of each kind, and our client of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.adapters.forge import Gitea, GitHub, GitLab, HttpForge
from reconciler.adapters.forge.token import TokenFile
from reconciler.ports import OnRequest
from reconciler.ports.forge import Pull
from reconciler.redaction import Redactor
from tests.adapters.registry.support import StillClock
from tests.servers.forge import REPOSITORY, PullRequest, TestForge, running

DIALECTS: dict[str, type[GitHub] | type[GitLab] | type[Gitea]] = {
    "github": GitHub,
    "gitlab": GitLab,
    "gitea": Gitea,
}
HEAD = "0123456789" * 4
PULL = Pull(7, "Change a pool", HEAD, "main", is_open=True, is_fork=False, branch="change")

Connect = Callable[..., HttpForge]


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture(params=sorted(DIALECTS))
def forge(request: pytest.FixtureRequest) -> Iterator[TestForge]:
    """With pull request 7. What was asked and answered fits what the forges publish, or the test fails."""
    with running(request.param) as one:
        one.pulls[7] = PullRequest(7, HEAD)
        yield one
        assert one.faults == []


@pytest.fixture
def token_file(tmp_path: Path, forge: TestForge) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{forge.token}\n")
    return path


@pytest.fixture
def connect(clock: StillClock, forge: TestForge, token_file: Path) -> Iterator[Connect]:
    """Make clients that are closed after the test."""
    with ExitStack() as stack:

        def make(url: str = "", timeout: float = 5.0, on_request: OnRequest = lambda _: None) -> HttpForge:
            redactor = Redactor()
            client = HttpForge(
                DIALECTS[forge.kind](REPOSITORY),
                url or forge.url,
                TokenFile(token_file, redactor),
                clock,
                redactor=redactor,
                timeout=timeout,
                jitter=random.Random(7),  # noqa: S311
                on_request=on_request,
            )
            return stack.enter_context(client)

        yield make


@pytest.fixture
def client(connect: Connect) -> HttpForge:
    return connect()
