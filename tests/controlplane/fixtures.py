"""Fixtures for tests that need a cluster. A folder's conftest.py imports all of them:

    from tests.controlplane.fixtures import (  # noqa: F401
        namespace, nodes, plane, pytest_collection_finish, upstream_crds
    )

Belongs here: when tests get a control plane, and what they leave behind. Does not belong here: the control plane.

However many folders import them, there is one control plane per session. Where none is to be had, tests skip with the
reason; with CI=true they fail instead, so that nobody believes that they ran.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from reconciler.core.model import Arch
from tests.controlplane import ControlPlane, Unavailable, programs

_FOUND = pytest.StashKey[programs.Programs | Unavailable]()
_PLANE = pytest.StashKey[ControlPlane]()
_UPSTREAM = pytest.StashKey[list[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what has to be built before the first test begins: seen by people, and in no test's time."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("cluster") for item in session.items):
        _find(session.config)


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    """The session's control plane, with the project's CRDs."""
    if _PLANE not in pytestconfig.stash:
        found = _find(pytestconfig)
        if isinstance(found, Unavailable):
            _cannot(found)
        made = ControlPlane(tmp_path_factory.mktemp("controlplane"), found)
        pytestconfig.add_cleanup(made.close)
        made.__enter__()
        made.install_ours()
        pytestconfig.stash[_PLANE] = made
    return pytestconfig.stash[_PLANE]


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test's own. What the test before has killed runs again."""
    plane.revive()
    name = plane.create_namespace()
    yield name
    plane.revive()
    plane.delete_namespace(name)


@pytest.fixture
def nodes(plane: ControlPlane, namespace: str) -> Iterator[dict[Arch, str]]:
    """One node per architecture, by name; gone after the test."""
    names = {arch: f"{namespace}-{arch}" for arch in Arch}
    for arch, name in names.items():
        plane.add_node(name, arch)
    yield names
    plane.revive()
    for name in names.values():
        plane.remove_node(name)


@pytest.fixture
def upstream_crds(plane: ControlPlane, pytestconfig: pytest.Config) -> Iterator[list[str]]:
    """The names of the upstream CRDs, which are installed; objects of these kinds are deleted after the test."""
    if _UPSTREAM not in pytestconfig.stash:
        try:
            pytestconfig.stash[_UPSTREAM] = plane.install_upstream()
        except Unavailable as error:
            _cannot(error)
    yield pytestconfig.stash[_UPSTREAM]
    plane.revive()
    for name in pytestconfig.stash[_UPSTREAM]:
        plural, _, group = name.partition(".")
        plane.api.delete(f"/apis/{group}/v1/{plural}")


def _find(config: pytest.Config) -> programs.Programs | Unavailable:
    """The programs, or why there are none; looked for once."""
    if _FOUND not in config.stash:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        try:
            config.stash[_FOUND] = programs.find(reporter.write_line if reporter else None)
        except Unavailable as error:
            config.stash[_FOUND] = error
    return config.stash[_FOUND]


def _cannot(error: Unavailable) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and no test that needs a cluster may be skipped: {error}", pytrace=False)
    pytest.skip(str(error))
