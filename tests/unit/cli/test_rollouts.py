"""How far nodes have come, as rows and as JSON."""

from __future__ import annotations

from reconciler.cli import rollouts
from reconciler.core.model import Arch
from reconciler.core.status import ArchRecord, PoolRecord
from reconciler.ports.cluster import NodeImage, PoolRollout

NEW = "registry.example.com/os/worker@sha256:" + "b" * 64
OLD = "registry.example.com/os/worker@sha256:" + "a" * 64
SHORT, BEFORE = f"sha256:{'b' * 12}…", f"sha256:{'a' * 12}…"
ENTRY = ArchRecord(Arch.AMD64, NEW, "sha256:" + "1" * 64, "sha256:" + "2" * 64, "c" * 40, "", ())
RECORDS = {"worker": PoolRecord("worker", "default", "1", NEW, "c" * 40, (ENTRY,))}


def rows(*nodes: NodeImage, paused: bool = False) -> list[tuple[str, ...]]:
    return list(rollouts.rows({"worker": PoolRollout(nodes, paused)}, RECORDS))


def test_each_node_of_a_small_pool_has_a_row() -> None:
    assert rows(
        NodeImage("a", NEW, NEW, "Done"),
        NodeImage("b", OLD, NEW, "Degraded", "no space left"),
        NodeImage("c"),
    ) == [
        ("worker", "1/3", SHORT, "", "not done", ""),
        ("", "a", SHORT, SHORT, "Done", ""),
        ("", "b", BEFORE, SHORT, "Degraded", "no space left"),
        ("", "c", "unknown", "unknown", "", ""),
    ]


def test_a_pool_that_is_paused_says_who_holds_it_unless_it_is_done() -> None:
    (first, _) = rows(NodeImage("a", OLD, OLD), paused=True)
    assert first[4:] == ("paused", "the Machine Config Operator holds its rollout")
    (first, _) = rows(NodeImage("a", NEW, NEW), paused=True)
    assert first[4:] == ("done", "")


def test_of_a_large_pool_only_those_that_have_something_to_tell() -> None:
    done = [NodeImage(f"n{n}", NEW, NEW, "Done") for n in range(2000)]
    assert len(rows(*done)) == 1
    assert [row[1] for row in rows(*done, NodeImage("odd", NEW, NEW, "Degraded"))] == ["2001/2001", "odd"]
    late = [NodeImage(f"o{n}", OLD, OLD, "Done") for n in range(30)]
    found = rows(*done, *late)
    assert found[0][1] == "2000/2030"
    assert len(found) == 1 + rollouts.MOST_NODES + 1
    assert found[-1][1] == "and 5 more"


def test_without_nodes_or_without_a_record_there_are_no_rows() -> None:
    assert rows() == []
    assert list(rollouts.rows({"infra": PoolRollout((NodeImage("a"),))}, RECORDS)) == []


def test_the_document_has_all_nodes() -> None:
    rollout = PoolRollout(tuple(NodeImage(f"n{n}", NEW if n else "") for n in range(100)), paused=True)
    found = rollouts.document(rollout, RECORDS["worker"])
    assert found
    assert (found["nodes"], found["onImage"], found["paused"]) == (100, 99, True)
    assert found["byNode"][0] == {
        "name": "n0",
        "currentImage": None,
        "desiredImage": None,
        "state": "",
        "reason": "",
    }
    unrecorded = rollouts.document(rollout, None)
    assert unrecorded
    assert unrecorded["onImage"] == 0
    assert rollouts.document(None, RECORDS["worker"]) is None


def test_a_node_with_an_error_of_its_own_is_stuck() -> None:
    assert rollouts.stuck([PoolRollout((NodeImage("a", state="Degraded"),))])
    assert not rollouts.stuck([PoolRollout((NodeImage("a", state="Working", reason="draining"),))])
