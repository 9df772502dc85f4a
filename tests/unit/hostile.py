"""YAML that is meant to hurt, and a program (`-m tests.unit.hostile`) that reads it under hard limits."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass

OURS = frozenset({("v1", "Mine")})
HEAD = "apiVersion: v1\nkind: Mine\n"
_MEMORY = 400 << 20
_CPU_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HostileCase:
    """`message` and `line` are those of the first fault."""

    name: str
    content: bytes
    message: str
    line: int


def _case(name: str, content: str | bytes, message: str, line: int) -> HostileCase:
    return HostileCase(name, content.encode() if isinstance(content, str) else content, message, line)


_ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
_MERGE_BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 10)
)

HOSTILE = (
    _case("alias bomb", HEAD + _ALIAS_BOMB, "anchor '&a0' is not allowed", 3),
    _case("merge bomb", HEAD + _MERGE_BOMB, "anchor '&a0' is not allowed", 3),
    _case("merge key", HEAD + "a: {<<: {b: 1}}\n", "the merge key << is not allowed", 3),
    _case("60,000 brackets", HEAD + "a: " + "[" * 60_000, "is nested more than 32 levels deep", 3),
    _case("60,000 braces", HEAD + "a: " + "{" * 60_000, "is nested more than 32 levels deep", 3),
    _case("60,000 dashes", HEAD + "a:\n" + "- " * 60_000, "is nested more than 32 levels deep", 4),
    _case("60,000 brackets of nobody", "[" * 60_000, "is nested more than 32 levels deep", 1),
    _case(
        "12,000 kinds and versions",
        "".join(f"kind: k{n}\napiVersion: v{n}\n" for n in range(12_000)),
        "key 'kind' is given twice (first on line 1)",
        3,
    ),
    _case(
        "16,000 times the items of a list",
        "kind: List\nitems: *x\n" + "items: []\n" * 16_000,
        "is a list with items that an alias or a merge key hides",
        2,
    ),
    _case(
        "lists in lists in lists",
        "items: [{kind: List, " * 15 + "items: *x" + "}]" * 15 + "\nkind: List\n",
        "is a list with items that an alias or a merge key hides",
        1,
    ),
    _case("duplicate key", HEAD + "a: 1\nb: 2\na: 3\n", "key 'a' is given twice (first on line 3)", 5),
    _case(
        "duplicate nested key", HEAD + 'a: {b: 1, "b": 2}\n', "key 'b' is given twice (first on line 3)", 3
    ),
    _case("key no text", HEAD + "1: x\n", "key '1' is not text", 3),
    _case("key true", HEAD + "true: x\n", "key 'true' is not text", 3),
    _case("key null", HEAD + "~: x\n", "key '~' is not text", 3),
    _case("key empty", HEAD + "?\n: x\n", "key '' is not text", 3),
    _case("key a list", HEAD + "? [a]\n: x\n", "a key must be text, not a list or a mapping", 3),
    _case("5,000 digits", HEAD + f"a: {'9' * 5000}\n", "has more than 18 digits", 3),
    _case("endless float", HEAD + f"a: 1.{'9' * 900_000}\n", "has more than 64 characters", 3),
    _case("infinity", HEAD + "a: -.inf\n", "is not finite", 3),
    _case("float overflow", HEAD + "a: 1e400\n", "is not finite", 3),
    _case("escaped NUL", HEAD + 'a: "\\0"\n', "an escape makes a NUL", 3),
    _case(
        "python object",
        HEAD + "a: !!python/object/apply:os.system [x]\n",
        "tag 'tag:yaml.org,2002:python/object",
        3,
    ),
    _case("local tag", HEAD + "a: !vault x\n", "tag '!vault' is not allowed", 3),
    _case("binary tag", HEAD + "a: !!binary aGk=\n", "tag 'tag:yaml.org,2002:binary' is not allowed", 3),
    _case("YAML directive", f"%YAML 1.1\n---\n{HEAD}", "a % directive is not allowed", 1),
    _case("TAG directive", f"%TAG !e! tag:x,2000:\n---\n{HEAD}", "a % directive is not allowed", 1),
    _case(
        "future directive",
        f"%YAML 3.0\n---\n{HEAD}",
        "is not valid YAML: found incompatible YAML document",
        1,
    ),
    _case("huge directive", f"%YAML {'1' * 5000}.1\n---\n{HEAD}", "YAML", 1),
    _case("tab", HEAD + "a:\n\tb: 1\n", "is not valid YAML: a tab where only spaces may indent", 4),
    _case("open quote", HEAD + 'a: "x\ny\n', "found unexpected end of stream (it begins on line 3)", 5),
    _case("half a mapping", HEAD + "a: b: c\n", "is not valid YAML: mapping values are not allowed", 3),
    _case("undefined handle", HEAD + "a: !e!x y\n", "is not valid YAML: while parsing a node", 3),
    _case("Latin-1", HEAD.encode() + b"a: \xe9\n", "is not UTF-8", 3),
    _case("UTF-16", HEAD.encode("utf-16"), "is not UTF-8", 1),
    _case("UTF-16 without mark", HEAD.encode("utf-16-le"), "holds a NUL byte", 1),
    _case("binary", bytes(range(256)) * 20, "is not UTF-8", 2),
    _case("control character", HEAD + "a: \x1b[31m\n", "holds the control character U+001B", 3),
    _case(
        "hidden line end",
        HEAD + "# see\u2028spec: {}\n",
        "holds U+2028, which only some YAML readers take",
        3,
    ),
    _case("next line", HEAD + "a: |\n  x\x85  y\n", "holds U+0085, which only some YAML readers take", 4),
    _case("giant line", HEAD + "a: " + "x" * (1 << 20), "has 1048605 bytes; at most 1048576 are read", 0),
    _case("giant key", HEAD + "k" * 900_000 + ": 1\n", "is not valid YAML", 3),
    _case("many documents", "---\n" * 200_000, "holds more than 50000 values, keys and brackets", 16668),
    _case(
        "many values",
        HEAD + "a: [" + "1," * 400_000 + "]\n",
        "holds more than 50000 values, keys and brackets",
        3,
    ),
    _case("many aliases", HEAD + "a: [" + "*a," * 40_000 + "]\n", "alias '*a' is not allowed", 3),
    _case("many anchors", HEAD + "a:\n" + "- &a x\n" * 40_000, "anchor '&a' is not allowed", 4),
    _case("deep keys", HEAD + "? " * 60_000, "is nested more than 32 levels deep", 3),
)


def main(parser: str) -> None:
    """Read every case and some that are sound, and print how many were refused."""
    if parser == "pure":
        sys.modules["yaml._yaml"] = None  # type: ignore[assignment]  # an import of it fails from here on
    from reconciler.core.yaml import read
    from reconciler.errors import InvalidInput

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    refused = 0
    for case in HOSTILE:
        try:
            read(case.content, case.name, OURS)
        except InvalidInput:
            refused += 1
    (alive,) = read(HEAD.encode(), "sound.yaml", OURS)
    import yaml

    sys.stdout.write(f"{'libyaml' if yaml.__with_libyaml__ else 'pure'} {refused if alive.kind else 0}\n")


if __name__ == "__main__":
    main(sys.argv[1])
