"""Input of absurd size or depth for every reader, and a program that feeds it to them (`-m` and its name).

Each case is read under hard limits of memory and CPU time, in a process of its own. YAML itself has its cases in
`tests.unit.hostile`.
"""

from __future__ import annotations

import base64
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from reconciler.adapters.git.url import Remote
from reconciler.adapters.registry.auth_file import AuthFile
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal
from reconciler.core import globs, index, yaml
from reconciler.core.containerfile import IgnoreRules, parse, specialise
from reconciler.core.documents import read_machine_os_config, read_repository_config
from reconciler.core.model import API_VERSION, GROUP, Arch, ImageRef
from reconciler.core.status import read_status
from reconciler.errors import GitError, InvalidInput
from reconciler.settings import read_settings
from tests.unit.containerfile.samples import NAME, context, names
from tests.unit.definitions import config, mosc
from tests.unit.documents.settings_cases import SETTINGS
from tests.unit.documents.statuses import STATUS

Input = TypeVar("Input")


class Case(NamedTuple):
    """Something to read, and the one exception that may come of it."""

    name: str
    read: Callable[[], object]
    documented: type[Exception] | None


MEMORY: Final = 700 << 20
CPU_SECONDS: Final = 60
"""For all cases together: some of them take hours when one step of a reader is quadratic."""

N: Final = 100_000
FROM: Final = "FROM q.io/a:1\n"
TREE: Final = context(names("a", "b/c", *(f"d{n % 10}/f{n}" for n in range(200))))

CONTAINERFILES: Final = {
    "continuations": "RUN " + "\\\n" * 19_000 + "x",
    "comments": "RUN a \\\n" + "# x \\\n" * 19_000,
    "carriage returns": "RUN a" + "\r" * N,
    "open quotes": "ENV a=" + "'\"" * N,
    "dollars": "ENV a=" + "$" * N,
    "open braces": "ENV a=" + "${a:-" * N,
    "closed braces": "ENV a=" + "${a:-" * N + "}" * N,
    "brackets": "CMD " + "[" * N,
    "brackets far in": 'CMD ["a",' + " " * 10_000 + "[" * N,
    "objects": 'CMD ["a",' + '{"a":' * N,
    "JSON words": "CMD [" + '"a",' * N + '"a"]',
    "JSON digits": 'CMD ["a",' + "1" * N + "]",
    "JSON exponent": 'CMD ["a",1e' + "9" * N + "]",
    "heredocs": "RUN " + "<<E " * N,
    "sound heredocs": "RUN " + "<<E " * 9_000 + "\nE" * 9_000,
    "heredoc quotes": "RUN " + "<<'" * N,
    "heredoc digits": "RUN a <" + "1" * N + "<<<",
    "heredoc in braces": "RUN <<E " + "${a:-" * N,
    "triggers": "ONBUILD " * N + "RUN x",
    "flags": "RUN " + "--network=none " * (N // 2) + "x",
    "mount options": "RUN --mount=type=bind" + ",a=b" * N + " x",
    "stages": "".join(f"FROM q.io/a:1 AS s{n}\n" for n in range(1_900)),
    "chain of stages": "FROM q.io/a:1 AS s0\n" + "".join(f"FROM s{n} AS s{n + 1}\n" for n in range(1_900)),
    "doubling ENV": "ENV a=xxxxxxxx\n" + "ENV a=$a$a\n" * 1_000,
    "doubling ARG": "ARG a=x\n" + "ARG a=$a$a\n" * 1_000,
    "unknowns": "".join(f"ENV a{n}=${{a{n - 1}:-$b}}$c\n" for n in range(1, 1_900)),
    "variables": "ENV " + " ".join(f"a{n}=$a{n - 1}" for n in range(N // 2)),
    "labels": "LABEL " + " ".join(f"a{n}=1" for n in range(N // 2)),
    "arguments": "ARG " + " ".join(f"a{n}" for n in range(N // 2)),
    "sources": "COPY " + "a " * N + "/x/",
    "globs": "COPY " + "*a" * 2_000 + "b /x",
    "long glob": "COPY " + "*a" * N + "b /x",
    "parents": "COPY " + "../" * N + "a /x",
    "folders": "WORKDIR " + "a/../" * N,
    "pattern in braces": "ARG a=" + "a" * 30_000 + "\nLABEL b=${a#" + "*a" * 2_000 + "b}",
    "replacement": "ARG a=" + "a" * 30_000 + "\nLABEL b=${a//" + "*a" * 2_000 + "b/x}",
    "ports": "EXPOSE " + "1-65535 " * 5_000,
    "digits of a time": "HEALTHCHECK --interval=" + "1" * N + " CMD x",
    "times": "HEALTHCHECK --interval=" + "1h1.5m" * N + "x CMD x",
    "retries": "HEALTHCHECK --retries=" + "9" * N + " CMD x",
    "stage number": "COPY --from=" + "1" * N + " a /x",
    "owner": "COPY --chown=" + ":" * N + " a /x",
    "shell words": "RUN " + "if true; then " * (N // 2),
    "shell depth": "RUN " + "$(" * N,
}  # fmt: skip
IGNORES: Final = {
    "stars": "*a" * 2_000 + "b",
    "folders": "**/a/" * 700 + "b",
    "rules": "\n".join(f"!**/a{n}*b" for n in range(1_000)),
    "starry rules": "\n".join(f"**/{'*a' * 20}{n}" for n in range(500)),
    "sets": "[a-z]*" * 600,
    "slashes": "/" * 200_000 + "a",
    "marks": "!" * N,
    "long": "**/" * 80_000,
    "lines": "\n" * 200_000,
}
GLOBS: Final = {
    "any folders": ("**/" * N + "a", "a/" * 1_000 + "b"),
    "stars": ("*a" * 1_500 + "b", "a" * 3_000),
    "parts": ("**/*/" * 1_000 + "c", "a/" * 1_000 + "b"),
    "slashes": ("/" * N, "/" * N),
}
MANIFESTS: Final = {
    "lists": b"[" * N,
    "objects": b'{"a":' * N,
    "digits": b'{"a":' + b"9" * N + b"}",
    "entries": b'{"manifests":[' + b'{"platform":{}},' * N + b"{}]}",
    "bases deep": json.dumps({"annotations": {f"{GROUP}/bases": "[" * N}}).encode(),
    "bases digits": json.dumps({"annotations": {f"{GROUP}/bases": f"[[{'9' * N},1]]"}}).encode(),
}
REMOTES: Final = {
    "path": f"https://h/{'a/' * N}",
    "host": f"https://{'a.' * N}!/x",
    "dashes": f"https://a{'-' * N}/x",
    "signs": "a@" * N,
    "colons": f"ssh://{':' * N}/x",
    "scp": f"{'a' * N}@{'b-' * N}:",
    "brackets": f"https://{'[' * N}/x",
    "address": f"https://[{'1:' * N}]/x",
    "percent": f"https://{'%41' * N}@h/x",
    "port": f"https://h:{'9' * N}/x",
}
REFERENCES: Final = {
    "separators": f"h.io/{'a-' * N}",
    "lines": f"h.io/a{'_' * N}!",
    "mixed": f"h.io/{'a._-' * N}!",
    "parts": f"h.io/{'a/' * N}",
    "host": f"{'a.' * N}",
    "address": f"[{':' * N}",
    "tag": f"h.io/a:{'a' * N}",
}
ARCHITECTURES: Final = {"blanks": " " * N, "letters": "\u0130" * N}
AUTH_FILES: Final = {
    "lists": "[" * N,
    "objects": '{"auths":' * N,
    "digits": f'{{"auths":{{"r.io":{"9" * N}}}}}',
    "keys": json.dumps({"auths": {f"h{n}.io/{'a/' * 9}": {} for n in range(10_000)}}),
    "slashes": json.dumps({"auths": {"/" * 900_000: {}}}),
    "secret": json.dumps({"auths": {"r.io": {"auth": base64.b64encode(b"u:" + b"x" * 600_000).decode()}}}),
    "size": json.dumps({"auths": {"r.io": {"auth": "A" * 1_100_000}}}),
}  # fmt: skip
DEFINITIONS: Final = {
    "name": mosc("a-" * 200_000),
    "push": mosc("worker", push="a/" * 200_000),
    "push host": mosc("worker", push="a." * 200_000 + "/b:1"),
    "entries": mosc("worker") + "  containerFile: [" + "{content: x, containerfileArch: ARM64}," * 6_000 + "]\n",
    "annotations": mosc("worker", annotations=",".join(f"{GROUP}/{n}: x" for n in range(9_000))),
    "architectures": mosc("worker", annotations=f"{GROUP}/architectures: '{'amd64 ' * N}'"),
    "unknown fields": mosc("worker") + "".join(f"  k{n}: 1\n" for n in range(9_000)),
}  # fmt: skip
CONFIGS: Final = {
    "commas": config(rest=f"refresh: '{'*,' * N} * * * *'"),
    "ranges": config(rest=f"refresh: '{'0-59,' * N}0 * * * *'"),
    "digits": config(rest=f"refresh: '{'9' * N} * * * *'"),
    "steps": config(rest=f"refresh: '0-59/{'1' * N} * * * *'"),
    "fields": config(rest=f"refresh: '{'* ' * N}'"),
    "age": config(rest=f"refresh: {'9' * N}d"),
    "patterns": config(rest="include: [" + "'**/a'," * 20_000 + "]"),
    "pattern": config(rest=f"include: ['{'**/' * N}']"),
    "path": config(rest=f"statusPath: {'a/' * N}"),
    "base": config(rest=f"baseImage: {'a.' * N}"),
    "architectures": config("amd64, " * 20_000),
}
SETTINGS_FILES: Final = {
    "unknown keys": SETTINGS + "".join(f"k{n}: 1\n" for n in range(9_000)),
    "interval": SETTINGS.replace("60s", "9" * N + "s"),
    "branch": SETTINGS.replace("branch: main", f"branch: {'a.' * N}"),
    "path": SETTINGS.replace("clusters/east", "../" * N),
    "listen": SETTINGS.replace("127.0.0.1:8080", ":" * N),
    "listen address": SETTINGS.replace("127.0.0.1:8080", f"[{'1:' * N}]:80"),
    "hosts": SETTINGS.replace('["127.0.0.1:5000"]', "[" + '"127.0.0.1:5000",' * 20_000 + "]"),
    "url": SETTINGS.replace("git.example.com", "a-" * N),
}
RECORDS: Final = {
    "image": STATUS.replace("os/worker", "a/" * N),
    "instance": STATUS.replace("instance: default", f"instance: {'a-' * N}"),
    "commit": STATUS.replace("sourceCommit: 0", f"sourceCommit: {'0' * N}"),
    "architectures": STATUS + "  - {arch: amd64}\n" * 9_000,
    "bases": STATUS.replace("bases: [", "bases: [" + "{ref: a, digest: b}," * 6_000),
    "epoch": STATUS.replace("epoch: ''", f"epoch: '{'n=9&' * N}'"),
}


def auth_file(content: bytes, folder: Path) -> None:
    """Look a repository up in an auth file. Raises Refusal."""
    path = folder / "auth.json"
    path.write_bytes(content)
    AuthFile(path).find(Place.parse("r.io/os/worker"))


def definition(content: bytes) -> None:
    """Read MachineOSConfigs. Raises InvalidInput."""
    for document in yaml.read(
        content, "a.yaml", {("machineconfiguration.openshift.io/v1", "MachineOSConfig")}
    ):
        read_machine_os_config(document)


def repository(content: bytes) -> None:
    """Read RepositoryConfigs. Raises InvalidInput."""
    for document in yaml.read(content, "a.yaml", {(API_VERSION, "RepositoryConfig")}):
        read_repository_config(document)


def containerfile(text: str) -> None:
    """Parse and specialise. Raises InvalidInput."""
    specialise(parse(text, NAME), Arch.ARM64, TREE)


def manifest(content: bytes) -> None:
    """Read a manifest all ways. Raises nothing."""
    found = index.load(content)
    index.child_digest(found, Arch.AMD64)
    index.provenance(found)


def cases(folder: Path) -> Iterator[Case]:
    """Every case."""
    yield from _each("Containerfile", CONTAINERFILES, lambda text: containerfile(FROM + text))
    yield from _each("ignore file", IGNORES, _ignore)
    yield from _each("glob", GLOBS, lambda pair: globs.matches(*pair), None)
    yield from _each("manifest", MANIFESTS, manifest, None)
    yield from _each("remote", REMOTES, Remote.parse, GitError)
    yield from _each("reference", REFERENCES, ImageRef.parse, ValueError)
    yield from _each("architecture", ARCHITECTURES, Arch.parse, ValueError)
    yield from _each("auth file", AUTH_FILES, lambda text: auth_file(text.encode(), folder), Refusal)
    yield from _each("definition", DEFINITIONS, lambda text: definition(text.encode()))
    yield from _each("configuration", CONFIGS, lambda text: repository(text.encode()))
    yield from _each("settings", SETTINGS_FILES, lambda text: read_settings(text.encode(), "c"))
    yield from _each("status", RECORDS, lambda text: read_status(text.encode(), "s"))


def _each(
    kind: str,
    inputs: Mapping[str, Input],
    read: Callable[[Input], object],
    documented: type[Exception] | None = InvalidInput,
) -> Iterator[Case]:
    for name, value in inputs.items():
        yield Case(f"{kind}: {name}", partial(read, value), documented)


def _ignore(text: str) -> None:
    rules = IgnoreRules.parse(text)
    for entry in TREE.entries:
        rules.excludes(entry.path)


def main() -> None:
    """Read everything; print each case that ended in anything but its documented error, and their number."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)):
            count += 1
            try:
                case.read()
            except Exception as error:
                if type(error) is not case.documented:
                    sys.stdout.write(f"{case.name}: {type(error).__name__}\n")
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
