"""The words of a pull request that records images."""

from __future__ import annotations

from dataclasses import replace

from reconciler.core.model import Arch
from reconciler.core.proposal import TITLE, Change, Origin, body, closing, images, key, key_in, title
from reconciler.core.status import ArchRecord, PoolRecord

ORIGIN = Origin("default", "", "main", "e" * 40)


def record(pool: str, index: str, commit: str = "c", **digests: str) -> PoolRecord:
    """A record whose digests are made of one digit each."""
    repository = f"registry.example.com/os/{pool}"
    entries = tuple(
        ArchRecord(
            Arch(arch),
            f"{repository}@sha256:{digit * 64}",
            f"sha256:{'0' * 64}",
            f"sha256:{'0' * 64}",
            "d" * 40,
            "",
            (),
        )
        for arch, digit in digests.items()
    )
    return PoolRecord(pool, "default", "1", f"{repository}@sha256:{index * 64}", commit * 40, entries)


CHANGES = [
    Change(
        record("worker", "1", amd64="2", arm64="3", s390x="9"), record("worker", "4", amd64="2", arm64="5")
    ),
    Change(None, record("infra", "6", amd64="7")),
]
GOLDEN = """\
<!-- reconciler.machineos.dev/write-back:v1:default:/ \
sha256:b5580557a0535b9554c8258399c12a9d36d5debc8e659208000265c26cc5a4f6 -->
### 2 of 3 images are new, in 2 pools

| pool | architecture | image | before | built from |
|:--|:--|:--|:--|:--|
| `infra` | amd64 | `sha256:77777777…` | none | `dddddddddddd` |
| `infra` | *index* | `sha256:66666666…` | none | `cccccccccccc` |
| `worker` | amd64 | `sha256:22222222…` | unchanged | `dddddddddddd` |
| `worker` | arm64 | `sha256:55555555…` | `sha256:33333333…` | `dddddddddddd` |
| `worker` | s390x | left out | `sha256:99999999…` | `dddddddddddd` |
| `worker` | *index* | `sha256:44444444…` | `sha256:11111111…` | `cccccccccccc` |

The images follow `eeeeeeeeeeee`. They are built and in the registry; tags and nodes follow what `main` records, so \
merging this delivers these images, by whichever way of merging.

The reconciler keeps this request up to date: it overwrites the branch, and closes the request when nothing is left to \
record. To say no to these images, close it without merging.

Source commit eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee, instance `default`.
"""


def test_what_a_request_says() -> None:
    assert body(CHANGES, ORIGIN, 65_536) == GOLDEN
    assert body(CHANGES[::-1], ORIGIN, 65_536) == GOLDEN


def test_one_image_is_spoken_of_as_one() -> None:
    said = body([Change(None, record("infra", "6", amd64="7"))], ORIGIN, 65_536)
    assert "### 1 of 1 image is new, in 1 pool\n" in said
    assert "merging this delivers this image, by" in said


def test_the_key_is_of_the_images_and_of_nothing_else() -> None:
    first = key(images(change.new for change in CHANGES))
    assert key_in(GOLDEN) == first
    assert key_in("\r\n" + GOLDEN.replace("\n", "\r\n")) == first
    later = [replace(change.new, source_commit="a" * 40, engine="2") for change in CHANGES]
    assert key(images(later)) == first
    assert key(images([CHANGES[0].new])) != first
    assert key(images([CHANGES[1].new, record("worker", "4", amd64="2", arm64="6")])) != first


def test_only_a_first_line_of_ours_has_a_key() -> None:
    assert key_in("") == ""
    assert key_in(f"said:\n{GOLDEN}") == ""
    assert key_in(closing(ORIGIN, "there is nothing left to record on main")) == ""


def test_two_reconcilers_mark_their_requests_apart() -> None:
    marks = {
        body(CHANGES, replace(ORIGIN, instance=instance, folder=folder), 65_536).splitlines()[0]
        for instance in ("default", "east")
        for folder in ("", "clusters/east", "a--b")
    }
    assert len(marks) == 6
    assert not any("--" in mark[4:-3] for mark in marks)


def test_very_many_pools_fit() -> None:
    many = [Change(None, record(f"pool-{number}", "6", amd64="7")) for number in range(3000)]
    said = body(many, ORIGIN, 65_536)
    assert len(said.encode()) <= 65_536
    assert "*Left out here: " in said
    assert said.endswith(GOLDEN[GOLDEN.index("Source commit") :])


def test_a_title_is_one_line_that_every_forge_takes() -> None:
    assert title("Update worker") == "Update worker"
    assert title("Update\na\tb  c") == "Update a b c"
    long = title("Update " + "p" * 700)
    assert (len(long), long[-1]) == (TITLE, "…")
