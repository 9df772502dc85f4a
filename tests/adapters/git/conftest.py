"""Every test of the Git adapter starts as the command line does, and leaves no process behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reconciler.adapters.git.command import scrub
from tests.adapters.git.support import children


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept = dict(os.environ)
    scrub(kept)
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    before = children()
    yield
    assert children() <= before
