from __future__ import annotations

import pytest
import yaml as pyyaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.core.model import Arch, Base
from reconciler.core.status import ArchRecord, PoolRecord, read_status, write_status
from reconciler.errors import InvalidInput
from tests.unit.documents.cases import Bad, Good
from tests.unit.documents.statuses import BAD_STATUS, GOOD_STATUS, STATUS

digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:{}".format)
commits = st.text("0123456789abcdef", min_size=40, max_size=40) | st.sampled_from(
    ["1" * 40, "0b" + "1" * 38, "1e" + "1" * 38, "0" * 39 + "e", "e" * 40, "1" * 39 + "f"]
)
hosts = st.sampled_from(["registry.example.com", "127.0.0.1:5000", "localhost", "[::1]:5000", "r.io:443"])
paths = st.from_regex(r"[a-z0-9]{1,4}(?:[._-][a-z0-9]{1,3})?(?:/[a-z0-9]{1,4}){0,2}", fullmatch=True)
images = st.builds("{}/{}@{}".format, hosts, paths, digests)
text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
) | st.sampled_from(
    [
        "no",
        "1:30",
        "0x1f",
        "2024-01-01",
        "null",
        "~",
        "- a",
        "a: b",
        "a #b",
        "'",
        '"',
        "\\",
        "n=1&refresh=2",
        "\u2028",
        "x" * 3000,
    ]
)
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["no", "y", "on", "null", "true", "0123", "1e3", "0x1f", "12", "1-2"]
)
bases = st.lists(st.builds(Base, text.filter(bool), digests), max_size=3, unique_by=lambda base: base.ref)


def arch_record(arch: Arch) -> st.SearchStrategy[ArchRecord]:
    sorted_bases = bases.map(lambda found: tuple(sorted(found)))
    return st.builds(ArchRecord, st.just(arch), images, digests, digests, commits, text, sorted_bases)


architectures = st.sets(st.sampled_from(list(Arch)), min_size=1).flatmap(
    lambda archs: st.tuples(*(arch_record(arch) for arch in sorted(archs)))
)
records = st.builds(PoolRecord, labels, labels, text.filter(bool), images, commits, architectures)


@given(records)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read(record: PoolRecord) -> None:
    assert read_status(write_status(record), "status/x.yaml") == record


@given(records)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_other_yaml_readers_read_the_same(record: PoolRecord) -> None:
    """PyYAML reads YAML 1.1, as many tools do: no text of ours may be a number, a date or a flag to them."""
    found = pyyaml.safe_load(write_status(record))
    assert found["metadata"]["name"] == record.pool
    assert found["status"]["instance"] == record.instance
    assert found["status"]["engine"] == record.engine
    assert found["status"]["sourceCommit"] == record.source_commit
    for entry, expected in zip(found["status"]["architectures"], record.architectures, strict=True):
        assert (entry["epoch"], entry["sourceCommit"]) == (expected.epoch, expected.source_commit)
        assert [(base["ref"], base["digest"]) for base in entry["bases"]] == [
            (b.ref, b.digest) for b in expected.bases
        ]


@given(records)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_order_does_not_reach_the_file(record: PoolRecord) -> None:
    turned = PoolRecord(
        record.pool, record.instance, record.engine, record.image, record.source_commit,
        tuple(
            ArchRecord(a.arch, a.image, a.input, a.definition, a.source_commit, a.epoch, a.bases[::-1])
            for a in record.architectures[::-1]
        ),
    )  # fmt: skip
    assert write_status(turned) == write_status(record)


def test_the_format_is_that_of_the_design() -> None:
    assert write_status(read_status(STATUS.encode(), "status/worker.yaml")) == STATUS.encode()


@pytest.mark.parametrize("case", GOOD_STATUS, ids=lambda case: case.name)
def test_accepts(case: Good) -> None:
    assert read_status(case.text.encode(), "status/worker.yaml").pool == "worker"


@pytest.mark.parametrize("case", BAD_STATUS, ids=lambda case: case.name)
def test_refuses(case: Bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_status(case.text.encode(), "status/worker.yaml")
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == ("status/worker.yaml", case.line)
    assert case.message in fault.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no document of kind MachineOSImage"),
        ("a: 1\n", "holds no document of kind MachineOSImage"),
        (STATUS + "---\n" + STATUS, "holds more than one document of kind MachineOSImage"),
        (STATUS + "\t", "is not valid YAML"),
    ],
)
def test_a_file_holds_one_record(content: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_status(content.encode(), "status/worker.yaml")
