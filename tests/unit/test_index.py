from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.index import Child, Provenance, child_digest, index_bytes, load, provenance
from reconciler.core.model import Arch, Base
from reconciler.core.names import arch_tag, build_name, keep_tag, shortened

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CHILDREN = [Child(arch, f"sha256:{n:064x}", MANIFEST, 100 + n) for n, arch in enumerate(Arch)]


@given(st.permutations(CHILDREN))
def test_the_same_children_give_the_same_bytes(children: list[Child]) -> None:
    assert index_bytes(children) == index_bytes(CHILDREN)


def test_media_type_and_platform_are_always_there() -> None:
    index = json.loads(index_bytes(CHILDREN))
    assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    assert index["schemaVersion"] == 2
    assert [m["platform"]["architecture"] for m in index["manifests"]] == [a.value for a in Arch]
    assert all(m["platform"]["os"] == "linux" for m in index["manifests"])


def test_a_child_is_found_and_an_attestation_is_not() -> None:
    index = json.loads(index_bytes(CHILDREN[:1]))
    index["manifests"].append(
        {"digest": "sha256:" + "f" * 64, "platform": {"architecture": "unknown", "os": "unknown"}}
    )
    assert child_digest(index, Arch.AMD64) == CHILDREN[0].digest
    assert child_digest(index, Arch.S390X) is None


@given(st.binary(max_size=200))
def test_what_people_push_is_read_or_is_nothing(content: bytes) -> None:
    found = load(content)
    assert provenance(found) is None
    assert child_digest(found, Arch.AMD64) is None


@given(
    st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda c: (
            st.dictionaries(st.sampled_from(["manifests", "platform", "annotations", "digest", "x"]), c)
            | st.lists(c)
        ),
    )
)
def test_hostile_manifests_raise_nothing(value: object) -> None:
    found = load(json.dumps(value).encode())
    assert provenance(found) is None
    assert child_digest(found, Arch.AMD64) is None


def test_provenance_reads_what_it_wrote() -> None:
    written = Provenance(
        "sha256:" + "a" * 64, "sha256:" + "b" * 64, "1", "c" * 40, "n=1", (Base("x", "sha256:1"),)
    )
    assert provenance({"annotations": written.annotations()}) == written


@given(st.text(alphabet="abc-.", min_size=1, max_size=253))
def test_names_keep_their_limits_and_stay_apart(pool: str) -> None:
    digest = "sha256:" + "d" * 64
    assert len(build_name(pool, Arch.PPC64LE, digest, 12)) <= 63
    assert len(arch_tag(pool, Arch.PPC64LE, digest)) <= 128
    assert shortened(pool + "x" * 60, 40) != shortened(pool + "x" * 59 + "y", 40)


def test_the_keep_tag_is_not_the_referrers_tag() -> None:
    assert keep_tag("sha256:" + "a" * 64) == "digest-" + "a" * 64
