from __future__ import annotations

import pytest

from reconciler.core import yaml
from reconciler.core.documents import (
    Age,
    Cron,
    MachineConfigPolicy,
    Probes,
    RepositoryConfig,
    read_repository_config,
)
from reconciler.core.model import API_VERSION, Arch, ImageRef
from reconciler.errors import InvalidInput
from tests.unit.documents.cases import Bad, Good, changed
from tests.unit.documents.configs import BAD_CONFIGS, CONFIG, GOOD_CONFIGS


def read(text: str) -> RepositoryConfig:
    (document,) = yaml.read(text.encode(), "reconciler.yaml", {(API_VERSION, "RepositoryConfig")})
    return read_repository_config(document)


def test_all_that_a_configuration_says() -> None:
    text = changed(changed(CONFIG, "image\n", "upstream\n"), "trusted", "opaque")
    assert read(text) == RepositoryConfig(
        architectures=(Arch.AMD64, Arch.ARM64),
        include=("pools/**",),
        exclude=("examples/",),
        status_path="status",
        base_image=ImageRef("quay.io/os/base", "4.20"),
        refresh=Age(604800.0),
        machine_config=MachineConfigPolicy.UPSTREAM,
        probes=Probes.OPAQUE,
    )


def test_the_smallest_configuration_is_the_default() -> None:
    assert read("".join(CONFIG.splitlines(keepends=True)[:2])) == RepositoryConfig()


@pytest.mark.parametrize("case", GOOD_CONFIGS, ids=lambda case: case.name)
def test_accepts(case: Good) -> None:
    assert read(case.text).status_path


@pytest.mark.parametrize("case", BAD_CONFIGS, ids=lambda case: case.name)
def test_refuses(case: Bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(case.text)
    (fault,) = caught.value.faults
    assert fault.line == case.line
    assert case.message in fault.message


@pytest.mark.parametrize("kind", ["Repositoryconfig", "ReconcilerConfig"])
def test_another_kind_is_refused(kind: str) -> None:
    (document,) = yaml.read(
        changed(CONFIG, "RepositoryConfig", kind).encode(), "reconciler.yaml", {(API_VERSION, kind)}
    )
    with pytest.raises(InvalidInput, match="kind must be RepositoryConfig"):
        read_repository_config(document)


def test_cron_becomes_numbers() -> None:
    refresh = read(changed(CONFIG, "168h", "'*/20 1-5/2,23 1 JAN,mar-apr Sun,6-7'")).refresh
    assert refresh == Cron(
        "*/20 1-5/2,23 1 JAN,mar-apr Sun,6-7",
        minutes=(0, 20, 40),
        hours=(1, 3, 5, 23),
        days=(1,),
        months=(1, 3, 4),
        weekdays=(0, 6),
        either_day=True,
    )


@pytest.mark.parametrize(
    ("expression", "either"),
    [
        ("0 0 * * *", False),
        ("0 0 1 * *", False),
        ("0 0 * * 1", False),
        ("0 0 */2 * 1", False),
        ("0 0 1 * 1", True),
    ],
)
def test_either_day_as_cron_has_it(expression: str, either: bool) -> None:
    refresh = read(changed(CONFIG, "168h", f"'{expression}'")).refresh
    assert isinstance(refresh, Cron)
    assert refresh.either_day is either


def test_the_29th_of_february_comes() -> None:
    refresh = read(changed(CONFIG, "168h", "0 0 29 2 *")).refresh
    assert isinstance(refresh, Cron)
    assert (refresh.days, refresh.months) == ((29,), (2,))
