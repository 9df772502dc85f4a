from __future__ import annotations

import pytest

from reconciler.core import yaml
from reconciler.core.documents import BasePolicy, InlineText, MachineOSConfig, read_machine_os_config
from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from tests.unit.documents.cases import Bad, Good, changed
from tests.unit.documents.definitions import BAD_DEFINITIONS, DEFINITION, GOOD_DEFINITIONS


class AnyVersion:
    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and pair[1] == "MachineOSConfig"


def read(text: str) -> MachineOSConfig:
    (document,) = yaml.read(text.encode(), "pools/worker.yaml", AnyVersion())
    return read_machine_os_config(document)


def test_all_that_a_definition_says() -> None:
    definition = read(DEFINITION)
    assert (definition.pool, definition.path, definition.line) == ("worker", "pools/worker.yaml", 1)
    assert (definition.push.repository, definition.push.tag) == ("registry.example.com/os/worker", "latest")
    assert str(definition.push) == "registry.example.com/os/worker:latest"
    assert definition.containerfiles == {
        None: InlineText("FROM configs AS final\nRUN true\n", 21),
        Arch.ARM64: InlineText("FROM configs AS final", 24),
    }
    assert definition.annotations["example.com/owner"] == "os"
    assert (definition.pull_secret, definition.push_secret) == ("pull", "push")
    assert definition.architectures == (Arch.AMD64, Arch.ARM64)
    assert (definition.refresh, definition.bases, definition.suspended) == ({}, BasePolicy.FOLLOW, False)


@pytest.mark.parametrize("case", GOOD_DEFINITIONS, ids=lambda case: case.name)
def test_accepts(case: Good) -> None:
    assert read(case.text).path == "pools/worker.yaml"


@pytest.mark.parametrize("case", BAD_DEFINITIONS, ids=lambda case: case.name)
def test_refuses(case: Bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(case.text)
    fault = caught.value.faults[0]
    assert fault.line == case.line
    assert case.message in fault.message


def test_our_annotations() -> None:
    wishes = (
        'reconciler.machineos.dev/refresh: "7"\n'
        '    machineconfiguration.openshift.io/rebuild: "8"\n'
        "    reconciler.machineos.dev/bases: locked\n"
        '    reconciler.machineos.dev/suspend: "true"'
    )
    definition = read(changed(DEFINITION, "reconciler.machineos.dev/architectures: amd64, arm64", wishes))
    assert definition.refresh == {"refresh": "7", "rebuild": "8"}
    assert (definition.bases, definition.suspended, definition.architectures) == (
        BasePolicy.LOCKED,
        True,
        None,
    )


def test_architectures_are_sorted_whatever_their_spelling() -> None:
    definition = read(changed(DEFINITION, "amd64, arm64", "s390x aarch64,X86_64"))
    assert definition.architectures == (Arch.AMD64, Arch.ARM64, Arch.S390X)


def test_an_empty_token_is_none() -> None:
    definition = read(
        changed(DEFINITION, "example.com/owner: os", 'machineconfiguration.openshift.io/rebuild: ""')
    )
    assert definition.refresh == {}


def test_every_fault_is_told_at_once() -> None:
    text = DEFINITION
    for old, new in (
        ("  name: worker\n  labels", "  name: other\n  labels"),
        ("dev/architectures", "dev/architecture"),
        ("imageBuilderType: Job", "imageBuilderType: job"),
        ("containerfileArch: NoArch", "containerfileArch: noarch"),
        ("{name: pull}", "{nam: pull}"),
        ("containerfileArch: ARM64", "containerfileArch: noarch"),
    ):
        text = changed(text, old, new)
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert [fault.line for fault in caught.value.faults] == [4, 7, 13, 14, 14, 19, 23, 23]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("containerfileArch: NoArch", "containerfileArch: noarch", "write NoArch"),
        ("containerfileArch: ARM64", "containerfileArch: aarch64", "write ARM64"),
        ("imageBuilderType", "imageBuilderTyp", "did you mean imageBuilderType?"),
        ("machineConfigPool", "MachineConfigPool", "did you mean machineConfigPool?"),
        ("    content: |", "    contents: |", "did you mean content?"),
        ("dev/architectures", "dev/Architecture", "did you mean reconciler.machineos.dev/architectures?"),
        ("Job", "job", "did you mean Job?"),
        ("team: os", "team: 12", "put it in quotes"),
        ("name: push", "name:", "give it a value, or leave the field out"),
    ],
)
def test_hints_say_what_to_write(old: str, new: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(changed(DEFINITION, old, new))
    assert hint in {fault.hint for fault in caught.value.faults}


def test_a_long_unknown_word_is_cheap_and_cut() -> None:
    with pytest.raises(InvalidInput) as caught:
        read(changed(DEFINITION, "imageBuilderType: Job", f"imageBuilderType: {'J' * 500_000}"))
    assert len(str(caught.value)) < 300
