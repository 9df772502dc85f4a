"""What a restart of the daemon should not forget of previews: promises on pull requests, and how long builds took.

Belongs here: their form, and reading it with care: it lies in a cache that anything may have happened to. Does not
belong here: the file itself (`ports.Kept`), and what follows from what is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from reconciler.daemon.durations import Seconds
from reconciler.ports import Kept
from reconciler.reconcile.remarks import Promise

_MOST: Final = 1_000


class Notebook:
    """One repository's notes, `name` telling it from others."""

    def __init__(self, kept: Kept, name: str) -> None:
        self._kept = kept
        self._key = f"previews of {name}"
        self._written = b""

    def read(self) -> tuple[dict[int, Promise], Seconds]:
        """What was written last; nothing of it when it cannot be read."""
        promises: dict[int, Promise] = {}
        seconds: dict[str, list[float]] = {}
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            found = json.loads(self._kept.get([self._key])[self._key])
            promises = {int(number): _promise(one) for number, one in found["promises"].items()}
            seconds = {str(image): [float(one) for one in known] for image, known in found["seconds"].items()}
        return promises, seconds

    def write(self, promises: Mapping[int, Promise], seconds: Seconds) -> None:
        """Write all anew, if it is not what was written last."""
        newest = sorted(promises.items())[-_MOST:]
        found = {
            "promises": {
                number: {"head": p.head, "base": p.base, "digest": p.digest, "touched": dict(p.touched)}
                for number, p in newest
            },
            "seconds": seconds,
        }
        text = json.dumps(found, sort_keys=True, default=list).encode()
        if text != self._written:
            self._kept.put({self._key: text})
            self._written = text


def _promise(one: Mapping[str, Any]) -> Promise:
    touched = {str(pool): str(digest) for pool, digest in one["touched"].items()}
    return Promise(str(one["head"]), str(one["base"]), str(one["digest"]), touched)
