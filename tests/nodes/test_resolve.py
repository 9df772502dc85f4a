"""From a pod to a plan, and from what happened to a status: the parts that need no process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nodes import linux
from tests.nodes.environment import expand
from tests.nodes.logs import select
from tests.nodes.plan import Container, PodPlan
from tests.nodes.resolve import DEFAULT_CAPABILITIES, Image, NotYet, quantity, resolve
from tests.nodes.status import Seen, status
from tests.nodes.world import IMAGE, container, pod

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:09Z"


def plan(image: Image | None = None, spec: dict[str, Any] | None = None, **fields: Any) -> PodPlan:
    found = pod(container("true", **fields), **(spec or {}))
    return resolve(found, {IMAGE: image or Image()}, lambda *_: None, Path("/mounts"), Path("/logs"))


def main(image: Image | None = None, spec: dict[str, Any] | None = None, **fields: Any) -> Container:
    return plan(image, spec, **fields).containers[0]


@pytest.mark.parametrize(
    ("command", "args", "argv"),
    [
        (None, None, ("entry", "word")),
        (None, ["other"], ("entry", "other")),
        (["own"], None, ("own",)),
        (["own"], ["other"], ("own", "other")),
    ],
)
def test_command_and_args_replace_the_images(command: Any, args: Any, argv: tuple[str, ...]) -> None:
    image = Image(entrypoint=("entry",), command=("word",))
    assert main(image, command=command, args=args).argv == argv


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ([], [], set(DEFAULT_CAPABILITIES)),
        (["SYS_ADMIN"], ["KILL"], {*DEFAULT_CAPABILITIES, "SYS_ADMIN"} - {"KILL"}),
        (["SETUID"], ["ALL"], {"SETUID"}),
        (["ALL"], ["KILL"], set(linux.CAPABILITIES) - {"KILL"}),
        (["KILL"], ["KILL"], set(DEFAULT_CAPABILITIES) - {"KILL"}),
    ],
)
def test_capabilities(add: list[str], drop: list[str], expected: set[str]) -> None:
    found = main(securityContext={"capabilities": {"add": add, "drop": drop}})
    assert set(found.capabilities) == expected


def test_a_container_overrules_its_pod_and_both_their_image() -> None:
    image = Image(uid=1000)
    assert main(image).uid == 1000
    assert main(image, {"securityContext": {"runAsUser": 5, "runAsGroup": 6}}).uid == 5
    own = main(
        image, {"securityContext": {"runAsUser": 5, "runAsGroup": 6}}, securityContext={"runAsUser": 0}
    )
    assert (own.uid, own.gid) == (0, 6)
    with pytest.raises(NotYet, match="runAsNonRoot"):
        main(image, {"securityContext": {"runAsNonRoot": True}}, securityContext={"runAsUser": 0})
    assert main(image, {"securityContext": {"runAsNonRoot": True}}).uid == 1000


def test_a_plan_stays_what_it_is_on_the_wire() -> None:
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    mounts = [{"name": "v", "mountPath": "/v", "subPath": "a"}]
    made = plan(spec={"volumes": volumes, "securityContext": {"fsGroup": 3}}, volumeMounts=mounts)
    assert made.volumes[0].limit == 1 << 20
    assert made.containers[0].groups == (3,)
    assert PodPlan.from_json(made.to_json()) == made


def test_the_root_of_all_variables_is_the_image() -> None:
    env = main(Image(env={"PATH": "/opt", "A": "image"}), env=[{"name": "A", "value": "pod"}]).env
    assert env == {"PATH": "/opt", "A": "pod", "HOSTNAME": "a-pod"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$(A)$(A)", "11"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$", "$$"),
        ("$A ${A} $(B) $(A", "$A ${A} $(B) $(A"),
        ("$", "$"),
        ("$(printf $(A))", "$(printf $(A))"),
    ],
)
def test_expansion_is_that_of_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize(
    ("text", "bytes_"), [("5", 5), ("1k", 1000), ("1Ki", 1024), ("1.5Gi", 3 << 29), ("2M", 2_000_000)]
)
def test_quantities(text: str, bytes_: int) -> None:
    assert quantity(text) == bytes_


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, b"a\nb\nc"),
        ({"tailLines": "2"}, b"b\nc"),
        ({"tailLines": "0"}, b""),
        ({"limitBytes": "3"}, b"a\nb"),
        ({"tailLines": "2", "limitBytes": "1", "follow": "false", "stream": "All"}, b"b"),
    ],
)
def test_lines_of_a_log(query: dict[str, str], expected: bytes) -> None:
    assert select(b"a\nb\nc", query) == expected


@pytest.mark.parametrize("query", [{"follow": "true"}, {"timestamps": "true"}, {"stream": "Stdout"}])
def test_other_demands_on_a_log_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(query))):
        select(b"a", query)


def ended(status: int, name: str = "main") -> dict[str, Any]:
    return {"container": name, "status": status, "reason": "", "message": "", "started": NOW, "at": NOW}


def test_phases() -> None:
    found = pod(container("", "main"), container("", "other"), initContainers=[container("", "first")])
    seen = Seen(started=NOW)

    def phase() -> str:
        text: str = status(found, seen, NOW)["phase"]
        return text

    steps: list[Callable[[], None]] = [
        lambda: seen.start("first", NOW),
        lambda: seen.end(ended(0, "first")),
        lambda: seen.start("main", NOW),
        lambda: seen.start("other", NOW),
        lambda: seen.end(ended(0)),
        lambda: seen.end(ended(1, "other")),
    ]
    phases = [phase()]
    for step in steps:
        step()
        phases.append(phase())
    assert phases == ["Pending", "Pending", "Pending", "Running", "Running", "Running", "Failed"]


def test_a_pod_that_is_given_up_is_not_over_before_its_containers() -> None:
    found = pod(container(""))
    seen = Seen(started=NOW)
    seen.start("main", NOW)
    seen.fail("Evicted", "no memory")
    seen.fail("DeadlineExceeded", "too late for another reason")
    assert status(found, seen, NOW)["phase"] == "Running"
    seen.end(ended(0))
    last = status(found, seen, NOW)
    assert (last["phase"], last["reason"], last["message"]) == ("Failed", "Evicted", "no memory")


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    found = pod(container(""))
    seen = Seen(started=NOW)
    seen.start("main", NOW)
    found["status"] = status(found, seen, NOW)
    seen.end(ended(0))
    times = {c["type"]: c["lastTransitionTime"] for c in status(found, seen, LATER)["conditions"]}
    assert times == {"Initialized": NOW, "ContainersReady": LATER, "Ready": LATER}
