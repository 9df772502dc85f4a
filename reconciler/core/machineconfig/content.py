"""The content of an Ignition resource: a `data:` URL decoded, decompressed under a ceiling, and verified.

Belongs here: bytes from text. Does not belong here: which field of which document that is (`documents`).
Sources of the rules: RFC 2397 as vincent-petithory/dataurl `lex.go` and `rfc2396.go` read it (what both Ignition and
the Machine Config Operator decode with); coreos/ignition `config/v3_5/types/{resource,url,verification}.go`, and
`internal/resource/url.go` (a checksum is that of the decompressed bytes).
"""

from __future__ import annotations

import binascii
import hashlib
import re
import zlib
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_BYTES: Final = 16 << 20
"""Of all files of one document, decoded. A MachineConfig itself must fit etcd's 1.5 MiB."""
MAX_RATIO: Final = 256
"""What gzip may make of one byte, once the result is larger than `FREE_BYTES`. Text seldom gains more than 20."""
FREE_BYTES: Final = 1 << 20
_MAX_MEMBERS: Final = 1024  # of one gzip stream: each copies the rest of it

_WORD: Final = r"[!#$%&'*+\-.^_`{|}~0-9A-Za-z]"
_MEDIA: Final = (
    rf"(?:(?:text|image|audio|video|application|message|multipart){_WORD}*|[xX]-{_WORD}*)/{_WORD}*"
)
_VALUE: Final = rf'(?:{_WORD}+|"(?:[^"\\\x80-\U0010ffff]|\\[\x00-\x7f])*")'
_HEAD: Final = re.compile(rf"data:(?:{_MEDIA})?(?:;{_WORD}+={_VALUE})*(;base64)?,")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_PLAIN: Final = re.compile(r"(?:[!$&-;=?-Z_a-z~]++|%[0-9A-Fa-f]{2})*+")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CHECKSUM: Final = {"sha256": re.compile(r"[0-9a-f]{64}"), "sha512": re.compile(r"[0-9a-f]{128}")}


class Unreadable(Exception):
    """Content that cannot be had from a resource; the message goes on after the field's name."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def decoded(source: str, *, compressed: bool, room: int) -> bytes:
    """The bytes that a source stands for, at most `room` of them. Raises Unreadable."""
    if not source:  # Ignition: an empty file
        return b""
    data = _data(source)
    if compressed:
        return _inflated(data, room)
    if len(data) > room:
        raise Unreadable(_too_much(room), "keep large files in the build context, and COPY them")
    return data


def _data(source: str) -> bytes:
    head = _HEAD.match(source)
    if head is None:
        raise _no_data_url(source)
    body = source[head.end() :]
    if head[1]:
        if len(body) % 4 or not _BASE64.fullmatch(body):
            hint = "write standard base64 with padding, in one line, and nothing percent-encoded"
            raise Unreadable("is not valid base64", hint)
        return binascii.a2b_base64(body)
    found = _PLAIN.match(body)
    rest = body[found.end() :] if found else body
    if rest:
        hint = "percent-encode everything but letters, digits and -_.!~*'()"
        raise Unreadable(f"holds {rest[:3]!r}, which a data: URL cannot hold as it is", hint)
    return unquote_to_bytes(body)


def _no_data_url(source: str) -> Unreadable:
    scheme = _SCHEME.match(source)
    if scheme and scheme[1].lower() != "data":
        return Unreadable(
            f"is a remote source ({scheme[1]}), which is not supported: what it says may change unseen",
            "put the content into a data: URL",
        )
    return Unreadable("is not a data: URL", "write data:,<percent-encoded text> or data:;base64,<base64>")


def _too_much(room: int) -> str:
    if room < MAX_BYTES:
        return f"takes the files of this MachineConfig over {MAX_BYTES} bytes"
    return f"has more than {MAX_BYTES} bytes"


def _inflated(data: bytes, room: int) -> bytes:
    """A gzip stream of any number of members, as Go's reader takes it: nothing may be missing or left over."""
    limit = min(room, max(FREE_BYTES, len(data) * MAX_RATIO))
    parts: list[bytes] = []
    size = 0
    members = 0
    rest = data
    while rest or not members:
        members += 1
        if members > _MAX_MEMBERS:
            raise Unreadable(f"is a gzip stream of more than {_MAX_MEMBERS} members", "compress it in one go")
        stream = zlib.decompressobj(wbits=31)
        try:
            part = stream.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise Unreadable(
                f"is not valid gzip: {error}", "compress it anew, or leave out compression"
            ) from None
        size += len(part)
        if size > limit:
            what = _too_much(room) if limit == room else f"grows to more than {MAX_RATIO} times its size"
            raise Unreadable(what, "keep large files in the build context, and COPY them")
        if not stream.eof:
            raise Unreadable("is a gzip stream that ends too early", "compress it anew")
        parts.append(part)
        rest = stream.unused_data
    return b"".join(parts)


def checksum(text: str) -> str:
    """A checksum as Ignition spells it, `sha256-<hex>` or `sha512-<hex>`. Raises Unreadable."""
    kind, dash, digits = text.partition("-")
    known = _CHECKSUM.get(kind)
    if not dash or known is None:
        raise Unreadable("is no checksum that Ignition knows", "write sha256-<hex> or sha512-<hex>")
    if not known.fullmatch(digits):
        raise Unreadable(f"has not the digits of a {kind}", "write them all, in lower-case hexadecimal")
    return text


def agrees(data: bytes, wanted: str) -> bool:
    """Whether a checksum is that of the data."""
    kind, _, digits = wanted.partition("-")
    return hashlib.new(kind, data).hexdigest() == digits
