"""From chosen images to one index: every child verified and kept, deterministic bytes, all or nothing.

Belongs here: DESIGN §6.1. Does not belong here: which images are chosen, the Git commit, the final tag's timing.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.core.index import Child, index_bytes, load
from reconciler.core.inputs import digest_of
from reconciler.core.model import Arch
from reconciler.core.names import keep_tag
from reconciler.errors import RegistryError
from reconciler.ports import OCI_INDEX, Manifest, Registry
from reconciler.reconcile.seen import Seen

_CONFIG_LIMIT = 4 << 20


def publish(
    registry: Registry, repository: str, images: Iterable[tuple[Arch, str]], seen: Seen | None = None
) -> str:
    """Put the index over `images` (`repository@digest` each) into `repository`; returns `repository@digest`.

    Repeating it writes nothing, and does not even ask for what was `seen`. Raises RegistryError when a child is not
    what it should be: then no index is written.
    """
    seen = seen or Seen()
    children = [_kept_child(registry, repository, arch, image, seen) for arch, image in images]
    content = index_bytes(children)
    index = Manifest(digest_of(content), OCI_INDEX, content)
    if not seen.indexes.get((repository, index.digest)):
        if not _is_kept(registry, repository, index.digest):
            _keep(registry, repository, index)
        seen.indexes[repository, index.digest] = True
    return f"{repository}@{index.digest}"


def move_tag(registry: Registry, repository: str, tag: str, image: str) -> bool:
    """Let `tag` name the index `image`; says whether it had to be moved."""
    digest = image.partition("@")[2]
    if registry.digest(repository, tag) == digest:
        return False
    registry.put(repository, tag, _manifest(registry, repository, digest))
    return True


def _kept_child(registry: Registry, repository: str, arch: Arch, image: str, seen: Seen) -> Child:
    source, _, digest = image.partition("@")
    known = seen.children.get((repository, digest, arch))
    if known is None:
        if source != repository and registry.digest(repository, digest) is None:
            registry.copy(source, digest, repository)
        manifest = _manifest(registry, repository, digest)
        kept = _is_kept(registry, repository, digest)
        known = _child(registry, repository, arch, manifest, kept=kept)
        if not kept:
            _keep(registry, repository, manifest)
        seen.children[repository, digest, arch] = known
    return known


def _child(registry: Registry, repository: str, arch: Arch, manifest: Manifest, *, kept: bool) -> Child:
    """An image as a member of an index, verified; the layers of one that is `kept` have been."""
    image = f"{repository}@{manifest.digest}"
    described = load(manifest.content)
    config = load(registry.blob(repository, _digest(described.get("config")), _CONFIG_LIMIT))
    found = config.get("architecture"), config.get("os")
    if found != (arch.value, "linux"):
        raise RegistryError(f"{image} is an image for {found[1]}/{found[0]}, not linux/{arch}")
    for layer in () if kept else described.get("layers", ()):
        if not registry.has_blob(repository, _digest(layer)):
            raise RegistryError(f"{image} lacks its layer {_digest(layer)}")
    variant = config.get("variant")
    return Child(
        arch,
        manifest.digest,
        manifest.media_type,
        len(manifest.content),
        variant if isinstance(variant, str) else "",
    )


def _digest(descriptor: object) -> str:
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    if not isinstance(digest, str):
        raise RegistryError("an image manifest has a descriptor without a digest")
    return digest


def _is_kept(registry: Registry, repository: str, digest: str) -> bool:
    """Whether something has its own tag: it was checked before it got it, and the tag has kept all of it since."""
    return registry.digest(repository, keep_tag(digest)) == digest


def _keep(registry: Registry, repository: str, manifest: Manifest) -> None:
    registry.put(repository, keep_tag(manifest.digest), manifest)


def _manifest(registry: Registry, repository: str, digest: str) -> Manifest:
    found = registry.manifest(repository, digest)
    if found is None:
        raise RegistryError(
            f"{repository}@{digest} is gone from its registry",
            hint="the next pass looks again, and builds it",
        )
    return found
