"""Base images, resolved: a reference and an architecture to the digest of the one manifest that is meant.

Belongs here: finding a base, and what in it would make our reading of a Containerfile wrong.
Does not belong here: the registry's protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.core.containerfile import ASSUMED
from reconciler.core.index import child_digest, load
from reconciler.core.inputs import Analysis
from reconciler.core.model import Arch, Base, ImageRef
from reconciler.core.plan import Reason, Target
from reconciler.errors import RegistryError
from reconciler.ports import Manifest, Registry

_CONFIG_LIMIT = 4 << 20


class _Unusable(Exception):
    """A base that cannot be built from, with the reason."""

    def __init__(self, change: str, message: str) -> None:
        self.reason = Reason("bases", change, message)


@dataclass(frozen=True, slots=True)
class _Found:
    """A base that can be built from, and the environment it brings."""

    digest: str
    env: Mapping[str, str]


class Bases:
    """Resolves bases, each at most once in this object's life: one per pass, so that a pass sees one world."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: dict[tuple[str, Arch], _Found | _Unusable] = {}

    def resolve(self, target: Target, known: tuple[Base, ...] = ()) -> Target:
        """The target with its bases, or with the obstacles that stand in the way.

        References in `known` keep the digest they have there (`bases: locked`).
        """
        assert target.inputs is not None
        locked = {base.ref: base.digest for base in known}
        bases, obstacles = [], []
        for ref, arch in target.references:
            if ref in locked:
                bases.append(Base(ref, locked[ref]))
                continue
            found = self._find(ref, arch)
            if isinstance(found, _Unusable):
                obstacles.append(found.reason)
                continue
            bases.append(Base(ref, found.digest))
            obstacles += _overridden(ref, found, target.inputs.analysis)
        if obstacles:
            return replace(target, obstacles=target.obstacles + tuple(obstacles))
        return replace(target, bases=tuple(bases))

    def _find(self, ref: str, arch: Arch) -> _Found | _Unusable:
        key = (ref, arch)
        if key not in self._found:
            try:
                self._found[key] = self._look_up(ref, arch)
            except _Unusable as error:
                self._found[key] = error
            except RegistryError as error:
                hint = f" ({error.hint})" if error.hint else ""
                self._found[key] = _Unusable(
                    "missing", f"base {ref} cannot be resolved: {error.message}{hint}"
                )
        return self._found[key]

    def _look_up(self, ref: str, arch: Arch) -> _Found:
        try:
            image = ImageRef.parse(ref)
        except ValueError:
            raise _Unusable(
                "invalid",
                f"base {ref} names no registry, so two machines could mean two images by it "
                f"(write for example docker.io/library/{ref})",
            ) from None
        manifest = self._registry.manifest(image.repository, image.digest or image.tag)
        if manifest is None:
            raise _Unusable("missing", f"base {ref} does not exist")
        if not manifest.is_index:
            return self._checked(image, manifest, ref, arch)
        index = load(manifest.content)
        digest = child_digest(index, arch)
        if digest is None:
            has = sorted({a.value for a in Arch if child_digest(index, a)})
            raise _Unusable(
                "missing", f"base {ref} has no image for {arch} (it has {', '.join(has) or 'none we know'})"
            )
        child = self._registry.manifest(image.repository, digest)
        if child is None:
            raise _Unusable("missing", f"base {ref} lists {digest} for {arch}, but its registry has lost it")
        return self._checked(image, child, ref, arch)

    def _checked(self, image: ImageRef, manifest: Manifest, ref: str, arch: Arch) -> _Found:
        """Refuse what a Containerfile could not be read right on top of."""
        config = self._config(image.repository, manifest)
        found = str(config.get("architecture", ""))
        if found != arch.value:
            raise _Unusable(
                "missing", f"base {ref} is an image for {found or 'no named architecture'}, not {arch}"
            )
        runtime = config.get("config")
        if isinstance(runtime, dict) and runtime.get("OnBuild"):
            # Its triggers are instructions that no definition digest has seen.
            raise _Unusable("invalid", f"base {ref} carries ONBUILD instructions, which are not supported")
        listed = runtime.get("Env") if isinstance(runtime, dict) else None
        env = [str(line).partition("=") for line in (listed if isinstance(listed, list) else ())]
        return _Found(manifest.digest, {name: value for name, _, value in env})

    def _config(self, repository: str, manifest: Manifest) -> dict[str, Any]:
        descriptor = load(manifest.content).get("config")
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        if not isinstance(digest, str):
            return {}
        return load(self._registry.blob(repository, digest, _CONFIG_LIMIT))


def _overridden(ref: str, base: _Found, found: Analysis) -> Iterator[Reason]:
    """Arguments that were read by their own value, while the base's environment, which wins, has another.

    A definition digest is Git's alone, so it cannot take the base's value in; building would not be what was planned.
    """
    known = {"TARGETARCH": found.arch.value, "TARGETOS": "linux", "TARGETPLATFORM": found.arch.platform}
    for name in found.assumes:
        if name in base.env and base.env[name] != known.get(name):
            what = f"sets {name}={base.env[name]} in its environment, which wins over ARG {name}"
            hint = "give the ARG another name, or set it with ENV"
            if name in ASSUMED:
                what, hint = f"sets {name}, which changes how a RUN is read", "unset it in the base"
            yield Reason("bases", "invalid", f"base {ref} {what} ({hint})")
    functions = sorted(name for name in base.env if name.startswith("BASH_FUNC_"))
    if functions and set(ASSUMED) <= set(found.assumes):
        # bash takes functions from the environment, as sh too: one may be called `uname`.
        what = f"brings the shell function {functions[0]}, which could stand for any program"
        yield Reason("bases", "invalid", f"base {ref} {what} (unset it in the base)")
