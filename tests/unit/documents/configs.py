"""RepositoryConfigs that are accepted, and ones that are refused."""

from __future__ import annotations

from tests.unit.documents.cases import Bad, Good, changed

CONFIG = """\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: RepositoryConfig
architectures: [amd64, arm64]
include: ["pools/**"]
exclude: ["examples/"]
statusPath: status
baseImage: quay.io/os/base:4.20
refresh: 168h
machineConfig: image
probes: trusted
"""


def _config(name: str, old: str, new: str) -> Good:
    return Good(name, changed(CONFIG, old, new))


GOOD_CONFIGS = (
    Good("as is", CONFIG),
    Good("smallest", "".join(CONFIG.splitlines(keepends=True)[:2])),
    _config("other spellings", "[amd64, arm64]", "[X86_64, ppc64el]"),
    _config("include everything", '["pools/**"]', "[]"),
    _config("patterns", '["pools/**"]', '["*.yaml", "/a/b", "**/c", "a?c/*/d/", "**"]'),
    _config("deep status path", "statusPath: status", "statusPath: clusters/east/.status"),
    _config("base by digest", "quay.io/os/base:4.20", f"localhost/base@sha256:{'a' * 64}"),
    _config("base with port", "quay.io/os/base:4.20", "registry:5000/base"),
    _config("age in days", "168h", "7d"),
    _config("cron", "168h", "0 3 * * 1"),
    _config("cron with names", "168h", "'*/15 1-5,7 1 JAN-mar Sun'"),
    _config("upstream", "image\n", "upstream\n"),
    _config("opaque", "trusted", "opaque"),
)


def _bad_config(name: str, old: str, new: str, line: int, message: str, *, schema: bool = True) -> Bad:
    return Bad(name, changed(CONFIG, old, new), line, message, schema)


BAD_CONFIGS = (
    _bad_config("no architectures", "[amd64, arm64]", "[]", 3, "must not be empty"),
    _bad_config("unknown architecture", "[amd64, arm64]", "[amd64, riscv64]", 3, "must be an architecture"),
    _bad_config("architecture twice", "[amd64, arm64]", "[amd64, amd64]", 3, "names 'amd64' twice"),
    _bad_config(
        "architecture twice otherwise", "[amd64, arm64]", "[amd64, x86_64]", 3, "twice", schema=False
    ),
    _bad_config("architecture not text", "[amd64, arm64]", "[1]", 3, "architectures[0] must be text"),
    _bad_config("architectures as text", "[amd64, arm64]", "amd64", 3, "architectures must be a list"),
    _bad_config("negated pattern", '"examples/"', '"!examples"', 5, "must be a path pattern"),
    _bad_config("pattern with a class", '"examples/"', '"[ab]"', 5, "must be a path pattern"),
    _bad_config("empty pattern", '"examples/"', '""', 5, "must be a path pattern"),
    _bad_config("root as pattern", '"examples/"', '"/"', 5, "must be a path pattern"),
    _bad_config("pattern going up", '"examples/"', '"../x"', 5, "must be a path pattern"),
    _bad_config("pattern with an empty part", '"examples/"', '"a//b"', 5, "must be a path pattern"),
    _bad_config("pattern too long", '"examples/"', "a" * 1025, 5, "must be a path pattern"),
    *(
        _bad_config(
            f"status path {path}", "statusPath: status", f"statusPath: {path}", 6, "must be a relative folder"
        )
        for path in (
            "''",
            ".",
            "..",
            "/abs",
            "a/",
            "a//b",
            "a/../b",
            "./a",
            "a\\b",
            ".git",
            "a/.GIT/b",
            '"a\\tb"',
        )
    ),
    _bad_config("null status path", "statusPath: status", "statusPath:", 6, "must be text, not empty (null)"),
    _bad_config("short base", "quay.io/os/base:4.20", "fedora:42", 7, "must be a full image reference"),
    _bad_config("age without unit", "168h", "'168'", 8, "must be a duration"),
    _bad_config("age as number", "168h", "168", 8, "must be text, not the number 168"),
    _bad_config("no age", "168h", "0h", 8, "must be a duration"),
    _bad_config("four fields", "168h", "0 3 * *", 8, "must be an age or a cron expression"),
    _bad_config("six fields", "168h", "0 0 3 * * 1", 8, "must be an age or a cron expression"),
    _bad_config("no such minute", "168h", "60 3 * * 1", 8, "has '60', which is no cron field", schema=False),
    _bad_config("no such name", "168h", "0 3 * foo 1", 8, "has 'foo', which is no cron field", schema=False),
    _bad_config(
        "step of nothing", "168h", "0 3/2 * * 1", 8, "has '3/2', which is no cron field", schema=False
    ),
    _bad_config("backwards", "168h", "0 5-3 * * 1", 8, "has '5-3', which is no cron field", schema=False),
    _bad_config("never", "168h", "0 3 31 2,4 *", 8, "names a day that never comes", schema=False),
    _bad_config("not cron", "168h", "0 3 % * 1", 8, "has '%', which is no cron field"),
    _bad_config("other policy", "image\n", "all\n", 9, "must be image or upstream, not 'all'"),
    _bad_config("other probes", "trusted", "true", 10, "must be text, not true"),
    _bad_config("unknown field", "probes", "probe", 10, "probe is an unknown field"),
    _bad_config("a name", "probes: trusted", "metadata: {name: x}", 10, "metadata is an unknown field"),
)
