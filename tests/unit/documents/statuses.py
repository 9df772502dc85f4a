"""Status files that are accepted, and ones that are refused."""

from __future__ import annotations

from tests.unit.documents.cases import Bad, Good, changed

_DIGEST = "sha256:" + "0123456789abcdef" * 4
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
STATUS = f"""\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: MachineOSImage
metadata: {{name: worker}}
status:
  instance: default
  engine: '1'
  image: registry.example.com/os/worker@{_DIGEST}
  sourceCommit: {_COMMIT}
  architectures:
  - arch: amd64
    image: registry.example.com/os/amd@{_DIGEST}
    input: {_DIGEST}
    definition: {_DIGEST}
    sourceCommit: {_COMMIT}
    epoch: ''
    bases: [{{ref: registry.example.com/base:1, digest: {_DIGEST}}}]
"""
_ARM_ENTRY = STATUS[STATUS.index("  - arch") :].replace("amd64", "arm64")


def _status(name: str, old: str, new: str) -> Good:
    return Good(name, changed(STATUS, old, new))


def _bad_status(name: str, old: str, new: str, line: int, message: str, *, schema: bool = True) -> Bad:
    return Bad(name, changed(STATUS, old, new), line, message, schema)


GOOD_STATUS = (
    Good("as is", STATUS),
    Good("two architectures", STATUS + _ARM_ENTRY),
    _status("no bases", f"[{{ref: registry.example.com/base:1, digest: {_DIGEST}}}]", "[]"),
    _status("an epoch", "epoch: ''", "epoch: n=1&refresh=x"),
    _status("loopback", f"registry.example.com/os/worker@{_DIGEST}", f"127.0.0.1:5000/w@{_DIGEST}"),
)
BAD_STATUS = (
    _bad_status("no digest", f"os/worker@{_DIGEST}", "os/worker:latest", 7, "must be repository@sha256:…"),
    _bad_status(
        "tag and digest", f"os/worker@{_DIGEST}", f"os/worker:a@{_DIGEST}", 7, "must be repository@sha256:…"
    ),
    _bad_status(
        "short image",
        f"registry.example.com/os/worker@{_DIGEST}",
        f"worker@{_DIGEST}",
        7,
        "must be repository@",
    ),
    _bad_status(
        "short commit",
        f"  sourceCommit: {_COMMIT}\n  arch",
        "  sourceCommit: 'abc'\n  arch",
        8,
        "40 hex digits",
    ),
    _bad_status("number for engine", "'1'", "1", 6, "status.engine must be text, not the number 1"),
    _bad_status("empty engine", "'1'", "''", 6, "status.engine must not be empty"),
    _bad_status("instance", "instance: default", "instance: a.b", 5, "must be a DNS label"),
    _bad_status("pool", "name: worker", "name: Worker", 3, "must be a DNS subdomain name"),
    _bad_status(
        "upstream's name", "arch: amd64", "arch: AMD64", 10, "must be amd64 or arm64 or ppc64le or s390x"
    ),
    _bad_status("short digest", f"input: {_DIGEST}", "input: sha256:abc", 12, "64 hex digits"),
    _bad_status("no epoch", "    epoch: ''\n", "", 10, "epoch is missing"),
    _bad_status(
        "no bases",
        f"    bases: [{{ref: registry.example.com/base:1, digest: {_DIGEST}}}]\n",
        "",
        10,
        "is missing",
    ),
    _bad_status("base without digest", f", digest: {_DIGEST}}}", "}", 16, "bases[0].digest is missing"),
    _bad_status("base without name", "registry.example.com/base:1", "''", 16, "must not be empty"),
    _bad_status("unknown field", "    epoch", "    note: x\n    epoch", 15, "note is an unknown field"),
    _bad_status(
        "no architectures", STATUS[STATUS.index("  architectures") :], "  architectures: []\n", 9, "be empty"
    ),
    Bad(
        "architecture twice", STATUS + _ARM_ENTRY.replace("arm64", "amd64"), 17, "records amd64 a second time"
    ),
    _bad_status(
        "base twice",
        "bases: [",
        f"bases: [{{ref: registry.example.com/base:1, digest: {_DIGEST}}}, ",
        16,
        "records base 'registry.example.com/base:1' a second time",
        schema=False,
    ),
)
