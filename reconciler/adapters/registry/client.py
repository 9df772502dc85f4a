"""The `Registry` port over HTTP.

Belongs here: manifests by reference, and what a whole copy consists of. Does not belong here: requests in
detail (`transport`), blobs (`blobs`), credentials (`auth`), or trying again (`retry`).
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self
from urllib.parse import quote

from reconciler.adapters.registry.auth import Authorizer
from reconciler.adapters.registry.auth_file import AuthFile
from reconciler.adapters.registry.blobs import Blobs
from reconciler.adapters.registry.content import (
    MANIFEST_LIMIT,
    MANIFEST_TYPES,
    Blob,
    blobs_of,
    digest_of,
    verified_manifest,
)
from reconciler.adapters.registry.place import Place, checked_reference, is_digest
from reconciler.adapters.registry.problems import Refusal, Transient
from reconciler.adapters.registry.retry import Result, Retry
from reconciler.adapters.registry.transport import Call, Transport
from reconciler.adapters.registry.wire import Wire
from reconciler.errors import RegistryError
from reconciler.ports import Clock, Manifest, OnRequest
from reconciler.redaction import Redactor

_TAGS: Final = 1000
"""Tags asked for at once."""
_TAG_PAGES: Final = 20
_ACCEPT: Final = {"Accept": ", ".join(MANIFEST_TYPES)}


class HttpRegistry:
    """Registries by the OCI distribution protocol. Safe to share between threads; close it after use.

    `insecure` lists hosts (`host[:port]`, exactly as in image references) that may be spoken to without
    verified TLS: see `wire`. `auth_file` holds credentials and is read again when it changes. `ca_file` (PEM)
    is trusted beside the machine's own trust store. `timeout` is how many seconds the network may be silent.
    All waiting goes through `clock`, and `jitter` spreads it. `redactor` is told of secrets, `on_request` of every
    request.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        insecure: frozenset[str] = frozenset(),
        auth_file: Path | None = None,
        ca_file: Path | None = None,
        timeout: float = 30.0,
        jitter: random.Random | None = None,
        redactor: Redactor | None = None,
        on_request: OnRequest = lambda _: None,
    ) -> None:
        self._wire = Wire(clock, insecure, ca_file, timeout, on_request)
        authorizer = Authorizer(self._wire, AuthFile(auth_file, redactor), clock)
        self._transport = Transport(self._wire, authorizer, clock)
        self._retry = Retry(clock, jitter or random.Random())  # noqa: S311  (spreads load, guards nothing)
        self._blobs = Blobs(self._transport, self._retry)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. Safe to repeat."""
        self._wire.close()

    def digest(self, repository: str, reference: str) -> str | None:
        """The digest behind a reference, by HEAD; None when there is nothing.

        Raises RegistryUnavailable, RegistryError.
        """
        place = Place.parse(repository)
        return self._run(place, reference, lambda: self._digest(place, reference))

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """The manifest's bytes, verified against their digest; None when there is nothing.

        Raises RegistryUnavailable, RegistryError.
        """
        place = Place.parse(repository)
        return self._run(place, reference, lambda: self._manifest(place, reference))

    def blob(self, repository: str, digest: str, limit: int) -> bytes:
        """A small blob, verified. Raises RegistryUnavailable, and RegistryError when absent or above `limit`
        bytes."""
        return self._blobs.read(Place.parse(repository), _checked_digest(digest), limit)

    def has_blob(self, repository: str, digest: str) -> bool:
        """Whether the repository holds the blob, by HEAD. Raises RegistryUnavailable, RegistryError."""
        return self._blobs.has(Place.parse(repository), _checked_digest(digest))

    def put_blob(self, repository: str, content: IO[bytes]) -> str:
        """Store what a file holds as a blob, unless it is there, and return its digest.

        Raises RegistryUnavailable, RegistryError.
        """
        place = Place.parse(repository)
        content.seek(0)
        digest = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"  # type: ignore[arg-type]
        self._blobs.store(Blob(digest, content.seek(0, io.SEEK_END)), content, place)
        return digest

    def put(self, repository: str, reference: str, manifest: Manifest) -> None:
        """Store a manifest under a tag or under its digest, and verify by reading back.

        Raises RegistryUnavailable, and RegistryError also when the manifest is not what it says.
        """
        place = Place.parse(repository)
        subject = place.at(checked_reference(reference))
        if digest_of(manifest.content) != manifest.digest or (
            is_digest(reference) and reference != manifest.digest
        ):
            raise RegistryError(f"{subject}: the content to be stored has another digest")
        if len(manifest.content) > MANIFEST_LIMIT:
            raise RegistryError(f"{subject}: a manifest of more than {MANIFEST_LIMIT} bytes is not stored")
        call = Call(
            "PUT",
            place,
            f"manifests/{reference}",
            (place.scope("pull,push"),),
            frozenset({201}),
            {"Content-Type": manifest.media_type},
            manifest.content,
        )
        self._retry.ensure(
            place.address,
            subject,
            lambda: self._transport.attempt(call),
            lambda: self._digest(place, reference) == manifest.digest,
        )
        self._retry.run(place.address, subject, lambda: self._read_back(place, reference, manifest))

    def tags(self, repository: str) -> tuple[str, ...]:
        """The tags of a repository, at most 20,000; none when it does not exist.

        Raises RegistryUnavailable, RegistryError.
        """
        place = Place.parse(repository)
        found: dict[str, None] = {}
        last = ""
        for _ in range(_TAG_PAGES):
            page, more = self._retry.run(place.address, str(place), partial(self._tags, place, last))
            found |= dict.fromkeys(page)
            if not more or not page:
                break
            last = f"&last={quote(page[-1], safe='')}"
        return tuple(found)

    def copy(self, source: str, digest: str, target: str) -> None:
        """Copy a single image between repositories, of one registry or of two: the same bytes, so the same
        digest.

        Every blob is looked for at the target, so that copying again mends an incomplete copy. Raises
        RegistryUnavailable, and RegistryError also when the source has no such image.
        """
        origin, goal = Place.parse(source), Place.parse(target)
        manifest = self.manifest(source, _checked_digest(digest))
        if manifest is None:
            raise RegistryError(f"{origin.at(digest)}: there is no such image to copy to {goal}")
        for blob in self._retry.run(origin.address, origin.at(digest), lambda: blobs_of(manifest)):
            self._blobs.transfer(blob, origin, goal)
        self.put(target, digest, manifest)

    def _run(self, place: Place, reference: str, operation: Callable[[], Result]) -> Result:
        return self._retry.run(place.address, place.at(checked_reference(reference)), operation)

    def _digest(self, place: Place, reference: str) -> str | None:
        reply = self._transport.attempt(_read_call("HEAD", place, reference))
        if reply.status == 404:
            return None
        claimed: str = reply.headers.get("docker-content-digest", "")
        if is_digest(claimed) and (claimed == reference or not is_digest(reference)):
            return claimed
        # The header is optional, and a wrong one must not count: then the bytes decide.
        manifest = self._manifest(place, reference)
        return manifest.digest if manifest else None

    def _manifest(self, place: Place, reference: str) -> Manifest | None:
        reply = self._transport.attempt(_read_call("GET", place, reference), MANIFEST_LIMIT)
        return None if reply.status == 404 else verified_manifest(reference, reply.headers, reply.body)

    def _tags(self, place: Place, last: str) -> tuple[list[str], bool]:
        """One page, and whether the registry says that there is another; one without paging sends all at once."""
        path = f"tags/list?n={_TAGS}{last}"
        call = Call("GET", place, path, (place.scope("pull"),), frozenset({200, 404}))
        reply = self._transport.attempt(call, MANIFEST_LIMIT)
        if reply.status == 404:
            return [], False
        try:
            listed = json.loads(reply.body).get("tags") or []
        except (ValueError, AttributeError) as error:
            raise Refusal("its list of tags cannot be read") from error
        return [tag for tag in listed if isinstance(tag, str)], "link" in reply.headers

    def _read_back(self, place: Place, reference: str, manifest: Manifest) -> None:
        """Registries with several replicas may show what was just stored a moment later: that is worth a
        wait."""
        stored = self._manifest(place, reference)
        if stored is None:
            raise Transient("it was stored, but is not there when read back")
        if stored.digest != manifest.digest:
            raise Transient(f"{manifest.digest} was stored, but {stored.digest} is there when read back")
        if stored.media_type != manifest.media_type:
            raise Refusal(f"it was stored as {manifest.media_type}, but reads back as {stored.media_type}")


def _read_call(method: str, place: Place, reference: str) -> Call:
    return Call(
        method, place, f"manifests/{reference}", (place.scope("pull"),), frozenset({200, 404}), _ACCEPT
    )


def _checked_digest(digest: str) -> str:
    if not is_digest(digest):
        raise RegistryError(f"{digest!r} is not a sha256 digest")
    return digest
