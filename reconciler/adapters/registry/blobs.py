"""Blobs: reading small ones, and bringing large ones from one repository to another through bounded memory.

Belongs here: blob requests. Does not belong here: manifests, or which blobs belong together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from functools import partial
from typing import IO, Final

import httpx

from reconciler.adapters.registry.content import Blob, digest_of
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal
from reconciler.adapters.registry.retry import BUDGET, Retry
from reconciler.adapters.registry.transport import Call, Reply, Transport, joined
from reconciler.adapters.registry.wire import patience

_PIECE: Final = 256 * 1024


class Blobs:
    """Blob requests with retries. Methods raise RegistryError and RegistryUnavailable."""

    def __init__(self, transport: Transport, retry: Retry) -> None:
        self._transport = transport
        self._retry = retry

    def read(self, place: Place, digest: str, limit: int) -> bytes:
        """A blob of at most `limit` bytes, verified."""

        def attempt() -> bytes:
            call = Call("GET", place, f"blobs/{digest}", (place.scope("pull"),), frozenset({200, 404}))
            reply = self._transport.attempt(call, limit)
            if reply.status == 404:
                raise Refusal("there is no such blob")
            if digest_of(reply.body) != digest:
                raise Refusal(f"the registry's bytes have the digest {digest_of(reply.body)}")
            return reply.body

        return self._retry.run(place.address, f"blob {place.at(digest)}", attempt)

    def has(self, place: Place, digest: str) -> bool:
        """Whether the blob is in the repository."""
        return self._retry.run(
            place.address, f"blob {place.at(digest)}", partial(self._holds, place, digest, "pull")
        )

    def transfer(self, blob: Blob, source: Place, target: Place) -> None:
        """Make sure that `target` holds a blob of `source`: by mount on the same registry, else by streaming
        it."""
        self._retry.ensure(
            target.address,
            f"copying blob {blob.digest} from {source} to {target}",
            partial(self._transfer, blob, source, target),
            partial(self._holds, target, blob.digest, "pull,push"),
            budget=BUDGET + patience(blob.size),
        )

    def store(self, blob: Blob, content: IO[bytes], target: Place) -> None:
        """Make sure that `target` holds a blob, whose bytes are a file's."""
        self._retry.ensure(
            target.address,
            f"storing blob {blob.digest} in {target}",
            partial(self._store, blob, content, target),
            partial(self._holds, target, blob.digest, "pull,push"),
            budget=BUDGET + patience(blob.size),
        )

    def _holds(self, place: Place, digest: str, actions: str) -> bool:
        call = Call("HEAD", place, f"blobs/{digest}", (place.scope(actions),), frozenset({200, 404}))
        return self._transport.attempt(call).status == 200

    def _transfer(self, blob: Blob, source: Place, target: Place) -> None:
        if self._holds(target, blob.digest, "pull,push"):
            return
        session = self._mount(blob.digest, source, target) if source.address == target.address else None
        if session is not None and session.status == 201:
            return
        self._upload(blob, target, session, partial(self._content, blob, source))

    def _store(self, blob: Blob, content: IO[bytes], target: Place) -> None:
        if not self._holds(target, blob.digest, "pull,push"):
            self._upload(blob, target, None, partial(_pieces, content))

    def _upload(
        self,
        blob: Blob,
        target: Place,
        session: Reply | None,
        body: Callable[[], Generator[bytes, None, None]],
    ) -> None:
        """Send a blob, in a session that is open or in a new one."""
        if session is None:
            session = self._transport.attempt(
                Call("POST", target, "blobs/uploads/", (target.scope("pull,push"),), frozenset({202}))
            )
        self._transport.attempt(
            Call(
                "PUT",
                target,
                scopes=(target.scope("pull,push"),),
                expect=frozenset({201}),
                headers={"Content-Length": str(blob.size), "Content-Type": "application/octet-stream"},
                body=body,
                url=_upload_url(session, blob.digest),
            )
        )

    def _mount(self, digest: str, source: Place, target: Place) -> Reply | None:
        """Ask for a mount: 201 when it is done, 202 when the registry opened an upload instead, None when it
        refused.

        A refusal may only mean that we may not read `source` by mount; whether `target` refuses us shows
        next.
        """
        call = Call(
            "POST",
            target,
            f"blobs/uploads/?mount={digest}&from={source.path}",
            (source.scope("pull"), target.scope("pull,push")),
            frozenset({201, 202}),
        )
        try:
            return self._transport.attempt(call)
        except Refusal:
            return None

    def _content(self, blob: Blob, source: Place) -> Generator[bytes, None, None]:
        """The blob's bytes from `source`. The last are held back until all are known to be right, so that
        wrong content is never uploaded completely."""
        call = Call("GET", source, f"blobs/{blob.digest}", (source.scope("pull"),))
        sha, count, held = hashlib.sha256(), 0, b""
        with self._transport.stream(call, patience(blob.size)) as chunks:
            for chunk in chunks:
                sha.update(chunk)
                count += len(chunk)
                if count > blob.size:
                    break
                if held:
                    yield held
                held = chunk
        if count != blob.size or f"sha256:{sha.hexdigest()}" != blob.digest:
            raise Refusal(f"{source} holds other content under this digest")
        yield held


def _pieces(content: IO[bytes]) -> Generator[bytes, None, None]:
    """A file's bytes from its start."""
    content.seek(0)
    while piece := content.read(_PIECE):
        yield piece


def _upload_url(session: Reply, digest: str) -> httpx.URL:
    """The URL that completes an upload. What the registry put into the query is left byte for byte as it
    is."""
    location = session.headers.get("location", "").partition("#")[0]
    url = joined(session.url, location)
    return joined(url, f"{url}{'&' if url.query else '?'}digest={digest}")
