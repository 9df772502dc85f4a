"""MachineConfigs that are meant to hurt, and a program (`-m tests.unit.machineconfig.hostile`) that lays them out under
hard limits."""

from __future__ import annotations

import base64
import gzip
import resource
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_HEAD = """apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: hostile
  labels: {machineconfiguration.openshift.io/role: worker}
spec:
"""
CONFIG = f"{_HEAD}  config:\n    ignition: {{version: 3.4.0}}\n"
FILES = f"{CONFIG}    storage:\n      files:\n"
LINKS = f"{CONFIG}    storage:\n      links:\n"
UNITS = f"{CONFIG}    systemd:\n      units:\n"
_QUOTED = 'a="b c"'
_CONTINUED = "\\n\\\\"
_MEMORY = 400 << 20
_CPU_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HostileCase:
    """`text` makes the file; `message` is in the first fault, '' when it is sound all the same."""

    name: str
    text: Callable[[], str]
    message: str


def _gzipped(size: int) -> bytes:
    """So many zeros, made without ever holding them."""
    stream = zlib.compressobj(9, wbits=31)
    parts = [stream.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, stream.flush()])


def file_of(path: str, data: bytes, *, compressed: bool = False) -> str:
    source = base64.b64encode(data).decode()
    compression = "compression: gzip, " if compressed else ""
    return f"      - {{path: {path}, contents: {{{compression}source: 'data:;base64,{source}'}}}}\n"


def _unit(name: str, install: str) -> str:
    return f'      - {{name: {name}, enabled: true, contents: "[Install]\\n{install}\\n"}}\n'


def _enabled(name: str, install: str) -> str:
    return UNITS + _unit(name, install)


def _source(text: str) -> str:
    return f"{FILES}      - {{path: /etc/x, contents: {{source: '{text}'}}}}\n"


def _long_chain() -> str:
    """Links that each go through the one before, by the longest way that a path may take."""
    way = "a/" * 100
    links = (f"      - {{path: /{way}l{i}, target: l{i + 1}}}\n" for i in range(3000))
    return LINKS + "".join(links)


def _cases() -> Iterator[HostileCase]:
    yield HostileCase(
        "gzip of 15 MiB",
        lambda: FILES + file_of("/etc/x", _gzipped(15 << 20), compressed=True),
        "grows to more than 256 times its size",
    )
    yield HostileCase(
        "gzip of 500 MiB",
        lambda: FILES + file_of("/etc/x", _gzipped(500 << 20), compressed=True),
        "has more than 16777216 bytes",
    )
    yield HostileCase(
        "many bombs that are small enough",
        lambda: (
            FILES
            + "".join(
                file_of(f"/etc/x{i}", gzip.compress(bytes(1 << 20)), compressed=True) for i in range(300)
            )
        ),
        "takes the files of this MachineConfig over 16777216 bytes",
    )
    yield HostileCase(
        "gzip of many members",
        lambda: FILES + file_of("/etc/x", gzip.compress(b"") * 35_000, compressed=True),
        "is a gzip stream of more than 1024 members",
    )
    yield HostileCase(
        "deep config",
        lambda: f"{CONFIG}    storage: {'{files: [' * 5000}",
        "is nested more than 32 levels deep",
    )
    yield HostileCase(
        "huge mode",
        lambda: f"{FILES}      - {{path: /etc/x, mode: {'9' * 18}}}\n",
        "must be permission bits",
    )
    yield HostileCase(
        "enormous mode",
        lambda: f"{FILES}      - {{path: /etc/x, mode: {'9' * 9000}}}\n",
        "more than 18 digits",
    )
    yield HostileCase(
        "octal mode of a million digits",
        lambda: f"{FILES}      - {{path: /etc/x, mode: '{'0' * 999_000}'}}\n",
        "must be a whole number",
    )
    yield HostileCase("parent in a path", lambda: f"{FILES}      - path: /etc/../x\n", "must be a clean path")
    yield HostileCase("NUL in a path", lambda: f'{FILES}      - path: "/etc/\\0"\n', "makes a NUL")
    yield HostileCase(
        "deep path", lambda: f"{FILES}      - path: {'/a' * 400_000}\n", "has more than 128 parts"
    )
    yield HostileCase("long path", lambda: f"{FILES}      - path: /{'a' * 900_000}\n", "is longer than")
    yield HostileCase(
        "a path many times",
        lambda: FILES + "      - path: /etc/x\n" * 8000,
        "path '/etc/x' is given twice",
    )
    yield HostileCase(
        "links in a circle",
        lambda: LINKS + "".join(f"      - {{path: /l{i}, target: l{(i + 1) % 4000}}}\n" for i in range(4000)),
        "more links than any system",
    )
    yield HostileCase("a long chain of links", _long_chain, "more links than any system")
    yield HostileCase(
        "links that leave", lambda: f"{LINKS}      - {{path: /etc/x, target: ../../x}}\n", "leaves the root"
    )
    yield HostileCase(
        "media type without end", lambda: _source(f"data:{';a=a' * 240_000}"), "is not a data: URL"
    )
    yield HostileCase(
        "escapes without end",
        lambda: _source(f"data:,{'%41' * 300_000}%4"),
        "which a data: URL cannot hold",
    )
    yield HostileCase(
        "quotes without end", lambda: f"""{_HEAD}  kernelArguments: ['{'"a' * 400_001}']\n""", "opens a quote"
    )
    yield HostileCase(
        "kernel arguments without end", lambda: f"{_HEAD}  kernelArguments: ['{_QUOTED * 100_000}']\n", ""
    )
    yield HostileCase(
        "base64 with a flaw at its end",
        lambda: _source(f"data:;base64,{'QUJD' * 250_000}Q!=="),
        "is not valid base64",
    )
    yield HostileCase(
        "wanted by very many",
        lambda: _enabled("x.service", "WantedBy=" + "".join(f"a{i}.target " for i in range(60_000))),
        "is more than a layer takes",
    )
    yield HostileCase(
        "wanted elsewhere",
        lambda: _enabled("x.service", "WantedBy=../../../../etc/cron.d/x.target"),
        "is no unit",
    )
    yield HostileCase(
        "enabled in a circle",
        lambda: (
            UNITS + "".join(_unit(f"x{i}.service", f"Also=x{(i + 1) % 3000}.service") for i in range(3000))
        ),
        "",
    )
    yield HostileCase(
        "continued without end",
        lambda: f'{UNITS}      - {{name: x.service, contents: "a{_CONTINUED * 200_000}"}}\n',
        "is no unit that systemd reads",
    )


HOSTILE = tuple(_cases())


def main() -> None:
    """Lay out every case, and print how many ended as they should."""
    texts = [case.text().encode() for case in HOSTILE]
    from reconciler.errors import InvalidInput
    from tests.unit.machineconfig.listing import layer_of

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    fine = 0
    for case, text in zip(HOSTILE, texts, strict=True):
        try:
            layer_of([(case.name, text)])
            fine += not case.message
        except InvalidInput as error:
            fine += bool(case.message) and case.message in str(error.faults[0])
    sys.stdout.write(f"{fine}\n")


if __name__ == "__main__":
    main()
