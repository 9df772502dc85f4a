"""Names derived from content: build names and tags. The same build has the same name wherever it is asked for.

Belongs here: spelling and shortening within the limits of Kubernetes and registries. Nothing is looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from reconciler.core.model import Arch

_JOB_NAME_LIMIT: Final = 63  # a Job's name is copied into a label value
_TAG_LIMIT: Final = 128  # OCI distribution specification
_TAG_DIGITS: Final = 16


def shortened(text: str, limit: int) -> str:
    """`text`, or a prefix and a hash of the whole that together fit `limit` characters, so that two long names stay
    two names."""
    if len(text) <= limit:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - 9].rstrip('-._')}-{mark}"


def build_name(pool: str, arch: Arch, input_digest: str, attempt: int) -> str:
    """`build-<pool>-<arch>-<10 of the input digest>-<attempt>`, at most 63 characters, a DNS label."""
    tail = f"-{arch}-{_hex(input_digest)[:10]}-{attempt}"
    head = shortened(pool.replace(".", "-"), _JOB_NAME_LIMIT - len("build-") - len(tail))
    return f"build-{head}{tail}"


def work_name(pool: str, wanted: Mapping[Arch, str]) -> str:
    """The name of a pool's work: `<pool>-<10 digits>` of the inputs wanted for each architecture. A DNS label, so that
    it can name an object."""
    text = "\n".join(f"{arch}={wanted[arch]}" for arch in sorted(wanted))
    tail = f"-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    return shortened(pool.replace(".", "-"), _JOB_NAME_LIMIT - len(tail)) + tail


def arch_tag(pool: str, arch: Arch, input_digest: str) -> str:
    """The tag that a build pushes to and that later passes look up: `<pool>-<arch>-<16 of the input digest>`."""
    return arch_tag_prefix(pool, arch) + _hex(input_digest)[:_TAG_DIGITS]


def arch_tag_prefix(pool: str, arch: Arch) -> str:
    """What all such tags of a pool and architecture begin with."""
    tail = f"-{arch}-"
    return shortened(pool, _TAG_LIMIT - len(tail) - _TAG_DIGITS) + tail


def keep_tag(digest: str) -> str:
    """The tag that keeps a manifest from a registry's garbage collection.

    Not `sha256-<hex>`: that spelling belongs to the referrers fallback of the distribution specification, whose
    clients would read our image as a list of referrers.
    """
    return f"digest-{_hex(digest)}"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
