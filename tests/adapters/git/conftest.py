"""Every test of the Git adapter starts as the command line does, and leaves no process behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.git.command import scrub
from tests.adapters.git.signing import Keys, World, openpgp
from tests.adapters.git.support import children, processes_with


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept = dict(os.environ)
    scrub(kept)
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    before = children()
    yield
    assert children() <= before


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    with openpgp() as gpg:
        yield Keys(gpg, tmp_path_factory.mktemp("ssh"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield World(tmp_path)
    assert list(place.iterdir()) == []
    assert not processes_with(str(place))
