"""Edits of MachineConfigs below a text that starts FROM configs.

Does not belong here: the text itself.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from random import Random
from typing import Final
from urllib.parse import quote

from tests.oracle.draft import Draft, Edit, Kind
from tests.oracle.kinds.tables import named, words

_GROUP: Final = "machineconfiguration.openshift.io"


def plain(text: str) -> str:
    """Contents as they are."""
    return f"{{source: '{'data:,' + quote(text)}'}}"


def packed(text: str) -> str:
    """The same contents, compressed."""
    data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f"{{source: 'data:;base64,{data}', compression: gzip}}"


def document(name: str, storage: str = "", *, role: str = "worker", more: str = "", labels: str = "") -> str:
    """A MachineConfig; `storage` and `more` are YAML below `config` and below `spec`."""
    return f"""\
apiVersion: {_GROUP}/v1
kind: MachineConfig
metadata:
  name: {name}
  labels: {{{_GROUP}/role: {role}{labels}}}
spec:
{more}  config:
    ignition: {{version: 3.4.0}}
{storage}"""


def file(path: str, contents: str, mode: str = "0644") -> str:
    """`storage` with one file."""
    return f"    storage: {{files: [{{path: {path}, mode: {mode}, contents: {contents}}}]}}\n"


def unit(text: str, *, enabled: bool = True) -> str:
    """`systemd` with one unit."""
    body = f"[Service]\\nExecStart=/usr/bin/{text}\\n[Install]\\nWantedBy=multi-user.target\\n"
    on = str(enabled).lower()
    return f'    systemd: {{units: [{{name: a.service, enabled: {on}, contents: "{body}"}}]}}\n'


def _begin(draft: Draft, *documents: str) -> None:
    """Start the last stage from these."""
    draft.lines[draft.final()] = "FROM configs"
    draft.machines[:] = documents


def contents(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines[0] = document("50-a", file("/etc/a", plain(new)))


def encoding(draft: Draft, rng: Random) -> Edit:
    old, _ = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines[0] = document("50-a", file("/etc/a", packed(old), "420"))


def mode(draft: Draft, rng: Random) -> Edit:
    old, _ = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines[0] = document("50-a", file("/etc/a", plain(old), "0600"))


def added(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines.append(document("60-b", file("/etc/b/c", plain(new)), role="infra"))


def overridden(draft: Draft, rng: Random) -> Edit:
    """What a later one replaces shows nowhere."""
    old, new = words(rng)
    last = document("60-b", file("/etc/a", plain("last")))
    _begin(draft, document("50-a", file("/etc/a", plain(old))), last)
    yield
    draft.machines[0] = document("50-a", file("/etc/a", plain(new)))


def order(draft: Draft, rng: Random) -> Edit:
    """Another name, and another one wins."""
    old, new = words(rng)
    last = document("60-b", file("/etc/a", plain(new)))
    _begin(draft, document("50-a", file("/etc/a", plain(old))), last)
    yield
    draft.machines[0] = document("70-a", file("/etc/a", plain(old)))


def role_wins(draft: Draft, rng: Random) -> Edit:
    """A pool's own win over those of `worker`, whatever their names."""
    old, new = words(rng)
    last = document("60-b", file("/etc/a", plain(new)))
    _begin(draft, document("50-a", file("/etc/a", plain(old))), last)
    yield
    draft.machines[0] = document("50-a", file("/etc/a", plain(old)), role="infra")


def renamed(draft: Draft, rng: Random) -> Edit:
    old, _ = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines[0] = "# moved\n" + document("51-a", file("/etc/a", plain(old)))


def other_pool(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    yield
    draft.machines.append(document("60-b", file("/etc/a", plain(new)), role="master"))


def for_arm64(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", file("/etc/a", plain(old))))
    only = ", reconciler.machineos.dev/arch: arm64"
    yield
    draft.machines.append(document("60-b", file("/etc/b", plain(new)), labels=only))


def kernel_argument(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", more=f"  kernelArguments: [{old}, {new}]\n"))
    yield
    draft.machines[0] = document("50-a", more=f"  kernelArguments: [{new}, {old}]\n")


def unit_text(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _begin(draft, document("50-a", unit(old)))
    yield
    draft.machines[0] = document("50-a", unit(new))


def unit_enabled(draft: Draft, rng: Random) -> Edit:
    old, _ = words(rng)
    _begin(draft, document("50-a", unit(old)))
    yield
    draft.machines[0] = document("50-a", unit(old, enabled=False))


def replaces_uname(draft: Draft, rng: Random) -> Edit:
    """A program of the layer lies about the architecture to a RUN of the text."""
    old, new = words(rng)
    liar = file("/usr/bin/uname", plain("#!/bin/busybox sh\necho aarch64\n"), "0755")
    _begin(draft, document("50-a", liar))
    place = draft.append(f'RUN if [ "$(uname -m)" = aarch64 ]; then echo {old} > /f; fi')
    yield
    draft.lines[place] = draft.lines[place].replace(old, new)


KINDS: Final[Mapping[str, Kind]] = named(
    contents,
    encoding,
    mode,
    added,
    overridden,
    order,
    role_wins,
    renamed,
    other_pool,
    for_arm64,
    kernel_argument,
    unit_text,
    unit_enabled,
    replaces_uname,
)
