"""Messages of HTTP/1.1 as they go over a wire (RFC 9112): where a head and a body end. For the fault proxy.

Belongs here: reading, byte for byte. Does not belong here: what a message means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request or an answer: its bytes, the three parts of its first line, its fields in lower case."""

    raw: bytes
    start: tuple[str, str, str]
    fields: Mapping[str, str]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Self | None:
        """The next head; None when there is no more. Raises EOFError when it stops half-way, or is no HTTP: somebody
        who tries TLS first must not wait for an answer."""
        try:
            raw = await reader.readexactly(1)
            if not raw.isalpha():
                raise EOFError
            raw += await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            return None
        first, *rest = raw.decode("latin-1").rstrip().split("\r\n")
        one, two, three = (*first.split(" ", 2), "")[:3]
        fields = (line.partition(":") for line in rest)
        return cls(raw, (one, two, three), {name.lower(): value.strip() for name, _, value in fields})

    @property
    def status(self) -> int:
        """An answer's status."""
        return int(self.start[1])

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with this message."""
        version = self.start[0] if self.start[0].startswith("HTTP/") else self.start[2]
        return version != "HTTP/1.1" or "close" in self.fields.get("connection", "").lower()

    @property
    def is_delimited(self) -> bool:
        """Whether it says itself where its body ends."""
        return "transfer-encoding" in self.fields or "content-length" in self.fields

    async def body(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """The body in pieces, with whatever frames it; nothing when the head names none. Raises EOFError."""
        if "transfer-encoding" in self.fields:
            async for piece in _chunks(reader):
                yield piece
            return
        left = int(self.fields.get("content-length", "0"))
        while left:
            piece = await reader.read(min(left, _PIECE))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield piece


async def rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """All that comes until the connection ends."""
    while piece := await reader.read(_PIECE):
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if not size:
            break
        yield line + await reader.readexactly(size + 2)
    while line != b"\r\n":  # the last chunk's own line, then trailers
        yield line
        line = await reader.readuntil(b"\r\n")
    yield line
