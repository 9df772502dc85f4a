"""Strict YAML: the bytes of a file as plain values with the line of each, or every fault by name.

Belongs here: limits, syntax, and what YAML can say that a Kubernetes document must not.
Does not belong here: which objects a document holds (`objects`), what an unquoted word is (`scalars`), what a document
means (`documents`), and files themselves.

PyYAML is used for its event stream only. Its composer and constructor recurse on input depth (30,000
brackets end the process), resolve aliases without limit, and let `ValueError` out; building values from
events has none of that.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from reconciler.core.objects import is_merge, is_plain, line_of, objects
from reconciler.core.scalars import UnsafeNumber, plain
from reconciler.errors import Fault, InvalidInput

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_EVENTS: Final = 50_000
MAX_FAULTS: Final = 100

Pointer = tuple[str | int, ...]
"""Keys and list positions from the root of a document to a value."""

_LOADER: Final[Any] = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # the same events, some fifty times slower
_NOT_YAML: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ODD_BREAK: Final = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. `data` is made of dict, list, str, int, float, bool and None; `line` is its
    first line.

    `api_version` and `kind` are '' when the document has none that is text.
    """

    path: str
    line: int
    api_version: str
    kind: str
    data: dict[str, Any]
    lines: Mapping[Pointer, int] = field(repr=False)
    text_lines: Mapping[Pointer, int] = field(repr=False)

    def line_of(self, pointer: Pointer) -> int:
        """The line of a value (of its key, in a mapping), or of the nearest thing around it that is there."""
        while pointer and pointer not in self.lines:
            pointer = pointer[:-1]
        return self.lines.get(pointer, self.line)

    def text_line(self, pointer: Pointer) -> int:
        """The line on which the first line of a text stands: for a block scalar the one below its `|` or
        `>`."""
        found = self.text_lines.get(pointer)
        return self.line_of(pointer) if found is None else found


def shown(text: str) -> str:
    """A text as messages show it: quoted, escaped, and cut to a length that fits a line."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read(content: bytes, path: str, wanted: Container[tuple[str, str]]) -> tuple[Document, ...]:
    """The documents of a file whose (apiVersion, kind) is in `wanted`, '' standing for one that is not given.

    The items of a list are documents too: of `kind: List`, as `kubectl get -o yaml` writes it, and of a
    wanted kind with `List` behind it.
    Of other documents only the limits and the syntax are checked; one whose apiVersion or kind cannot be
    told without resolving an alias, a merge key or a tag counts as wanted, and so is a fault.
    Raises InvalidInput with all faults of the file; a syntax error or a limit ends the reading.
    """
    text = _decoded(content, path)
    faults: list[Fault] = []
    documents: list[Document] = []
    end = 0
    for document in _documents(text, path, faults):
        start, end = end, _end(document[-1])
        found = list(objects(document, path, wanted, faults))
        if found and (odd := _ODD_BREAK.search(text, start, end)):
            faults.append(_odd_break(text, path, odd))
        for events in found:
            if len(faults) <= MAX_FAULTS:
                documents.append(_Builder(path, faults).build(events))
    if len(faults) > MAX_FAULTS:
        line = faults[MAX_FAULTS - 1].line
        faults[MAX_FAULTS:] = [
            Fault(path, line, "more faults follow, which are not listed", "mend these first")
        ]
    if faults:
        raise InvalidInput(faults)
    return tuple(documents)


def _decoded(content: bytes, path: str) -> str:
    if len(content) > MAX_BYTES:
        raise InvalidInput(
            [Fault(path, 0, f"has {len(content)} bytes; at most {MAX_BYTES} are read", "split the file")]
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput([Fault(path, line, "is not UTF-8", "save the file as UTF-8")]) from None
    if found := _NOT_YAML.search(text):
        what = "a NUL byte" if found[0] == "\0" else f"the control character U+{ord(found[0]):04X}"
        hint = (
            "save the file as UTF-8 text" if found[0] == "\0" else "remove it, or escape it in double quotes"
        )
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidInput([Fault(path, line, f"holds {what}, which YAML does not allow", hint)])
    return text


def _odd_break(text: str, path: str, found: re.Match[str]) -> Fault:
    return Fault(
        path,
        text.count("\n", 0, found.start()) + 1,
        f"holds U+{ord(found[0]):04X}, which only some YAML readers take as the end of a line",
        "remove it, or escape it in double quotes",
    )


def _documents(text: str, path: str, faults: list[Fault]) -> Iterator[list[yaml.Event]]:
    """The events of each document, up to the first syntax error or limit, which is added to `faults`."""
    depth = count = 0
    document: list[yaml.Event] = []
    line = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            line = line_of(event)
            count += 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if count > MAX_EVENTS or depth > MAX_DEPTH:
                faults.append(_limit(path, line, deep=depth > MAX_DEPTH))
                return
            if not isinstance(event, (yaml.StreamStartEvent, yaml.StreamEndEvent)):
                document.append(event)
            if isinstance(event, yaml.DocumentEndEvent):
                yield document
                document = []
    except yaml.MarkedYAMLError as error:
        faults.append(_syntax(error, text, path))
    except Exception as error:  # whatever a parser does on hostile bytes is a fault of the bytes
        faults.append(
            Fault(path, line, f"cannot be read as YAML: {type(error).__name__}", "write plain YAML 1.2")
        )


def _limit(path: str, line: int, *, deep: bool) -> Fault:
    if deep:
        return Fault(path, line, f"is nested more than {MAX_DEPTH} levels deep", "flatten it")
    return Fault(path, line, f"holds more than {MAX_EVENTS} values, keys and brackets", "split the file")


def _syntax(error: yaml.MarkedYAMLError, text: str, path: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    if mark and text[mark.index : mark.index + 1] == "\t":
        return Fault(
            path, line, "is not valid YAML: a tab where only spaces may indent", "indent with spaces"
        )
    what = ", ".join(part for part in (error.context, error.problem) if part)
    if error.context_mark and error.context_mark.line + 1 != line:
        what += f" (it begins on line {error.context_mark.line + 1})"
    return Fault(path, line, f"is not valid YAML: {what}", "check indentation, quotes and brackets here")


def _end(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


@dataclass(slots=True)
class _Frame:
    """A collection under construction. `key` is set between a mapping's key and its value."""

    value: dict[str, Any] | list[Any]
    pointer: Pointer
    is_key: bool = False
    key: str | None = None
    key_line: int = 0

    @property
    def awaits_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


class _Builder:
    """Turns the events of one document into values, with an explicit stack. After a fault the values mean
    nothing."""

    def __init__(self, path: str, faults: list[Fault]) -> None:
        self._path = path
        self._faults = faults
        self._stack: list[_Frame] = []
        self._lines: dict[Pointer, int] = {}
        self._text_lines: dict[Pointer, int] = {}
        self._root: dict[str, Any] = {}

    def build(self, events: list[yaml.Event]) -> Document:
        for event in events:
            if len(self._faults) > MAX_FAULTS:
                break
            match event:
                case yaml.DocumentStartEvent():
                    if event.version or event.tags:
                        self._fault(
                            event, "a % directive is not allowed", "remove it; documents are YAML 1.2"
                        )
                case yaml.AliasEvent():
                    self._fault(
                        event, f"alias {shown(f'*{event.anchor}')} is not allowed", "write the value out"
                    )
                    self._put(None, event)
                case yaml.ScalarEvent():
                    self._check_properties(event)
                    self._scalar(event)
                case yaml.CollectionStartEvent():
                    self._check_properties(event)
                    self._open(event)
                case yaml.CollectionEndEvent():
                    self._close()
        named = [self._root.get(name) for name in ("apiVersion", "kind")]
        api_version, kind = (value if isinstance(value, str) else "" for value in named)
        line = self._lines.get((), 0)
        return Document(self._path, line, api_version, kind, self._root, self._lines, self._text_lines)

    def _fault(self, event: yaml.Event, message: str, hint: str) -> None:
        self._faults.append(Fault(self._path, line_of(event), message, hint))

    def _check_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            self._fault(
                event,
                f"anchor {shown(f'&{event.anchor}')} is not allowed",
                "write the value out where it is used",
            )
        if event.tag is not None:
            hint = "remove it; put text that looks like a number in quotes"
            self._fault(event, f"tag {shown(event.tag)} is not allowed", hint)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if not self._stack:
            if isinstance(value, dict):
                self._root = value
            self._lines[()] = line_of(event)
            self._stack.append(_Frame(value, ()))
        elif self._stack[-1].awaits_key:
            self._fault(event, "a key must be text, not a list or a mapping", "write a plain word as key")
            self._stack.append(_Frame(value, (), is_key=True))
        else:
            self._stack.append(_Frame(value, self._put(value, event)))

    def _close(self) -> None:
        if self._stack.pop().is_key:
            self._stack[-1].key = ""

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        value = self._value(event)
        if self._stack[-1].awaits_key:
            self._key(value, event)
            return
        pointer = self._put(value, event)
        if event.style in ("|", ">"):
            self._text_lines[pointer] = line_of(event) + 1
        else:
            self._text_lines[pointer] = line_of(event)

    def _key(self, value: object, event: yaml.ScalarEvent) -> None:
        frame = self._stack[-1]
        frame.key, frame.key_line = event.value, line_of(event)
        if is_merge(event):
            self._fault(event, "the merge key << is not allowed", "write the merged keys out")
        elif not isinstance(value, str):
            self._fault(event, f"key {shown(event.value)} is not text", "put it in quotes")
        elif event.value in frame.value:
            first = self._lines[(*frame.pointer, event.value)]
            self._fault(
                event,
                f"key {shown(event.value)} is given twice (first on line {first})",
                "keep one of the two",
            )

    def _put(self, value: object, event: yaml.Event) -> Pointer:
        """Attach a value to the innermost collection (or take it as a key that is no text), and say where it
        went."""
        frame = self._stack[-1]
        line = line_of(event)
        if isinstance(frame.value, list):
            pointer = (*frame.pointer, len(frame.value))
            frame.value.append(value)
        elif frame.key is None:
            frame.key, frame.key_line = "", line
            return frame.pointer
        else:
            pointer = (*frame.pointer, frame.key)
            frame.value[frame.key] = value
            line, frame.key = frame.key_line, None
        self._lines[pointer] = line
        return pointer

    def _value(self, event: yaml.ScalarEvent) -> object:
        """What a scalar says; after a fault its text."""
        text = event.value
        if not is_plain(event):
            if "\0" in text or _has_surrogate(text):
                self._fault(event, "an escape makes a NUL or half a character", "remove it")
            return text
        try:
            return plain(text)
        except UnsafeNumber as error:
            self._fault(event, f"number {shown(text)} {error}", "put it in quotes if it is text")
            return text


def _has_surrogate(text: str) -> bool:
    """Whether an escape made half of a surrogate pair, which no encoding can write (PyYAML's own parser lets
    it)."""
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False
