"""From plain values to typed ones: pydantic in strict mode, its complaints turned into faults with place and
remedy.

Belongs here: the base model of every document and the wording of faults.
Does not belong here: any particular field (each document's module) or value (`values`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError, PydanticKnownError

from reconciler.core import yaml
from reconciler.core.yaml import Document, Pointer, shown
from reconciler.errors import Fault, InvalidInput


class Strict(BaseModel):
    """A document, or a part of one: camelCase keys, exact types, nothing unknown."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


Model = TypeVar("Model", bound=BaseModel)
Member = TypeVar("Member", bound=StrEnum)

_WANTED: Final[Mapping[str, str]] = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def rule(message: str, hint: str = "") -> PydanticCustomError:
    """What a validator raises: `message` goes on after the field's name (`must be …`), `hint` is the
    remedy."""
    return PydanticCustomError("rule", "{message}", {"message": message, "hint": hint})


def text_of(value: object) -> str:
    """The value, if it is text. Raises pydantic's own complaint otherwise."""
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return value


def one_of(choices: type[Member], later: Iterable[str] = ()) -> Callable[[object], Member]:
    """A validator for a closed set. `later` names words that are no mistake, but that this release does not
    have."""
    names = [member.value for member in choices]

    def member(value: object) -> Member:
        text = text_of(value)
        if text in names:
            return choices(text)
        hint = "this comes with a later release" if text in later else did_you_mean(text, names)
        raise rule(f"must be {' or '.join(names)}, not {shown(text)}", hint)

    return member


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the nearest known one, whatever its case, else all of them."""
    names = sorted(known)
    by_lower = {_last(name): name for name in names}
    # difflib is quadratic, and words come from hostile files
    near = get_close_matches(_last(word), by_lower, n=1) if len(word) <= 100 else []
    if near:
        return f"did you mean {by_lower[near[0]]}?"
    return f"known are {', '.join(names)}" if names else ""


def _last(name: str) -> str:
    """What tells names apart: a common prefix, as of annotations, would make all of them look alike."""
    return name.lower().rpartition("/")[2]


def check(
    model: type[Model], document: Document, data: object = None, at: Pointer = ()
) -> tuple[Model | None, list[Fault]]:
    """A document as `model`, or all that is wrong with it. `data` and `at`: only a part, and where it
    stands."""
    try:
        return model.model_validate(document.data if data is None else data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, [_fault(detail, model, document, at) for detail in details[: yaml.MAX_FAULTS]]


def only_document(content: bytes, path: str, api_version: str, kind: str) -> Document:
    """The one document that a file of this kind holds. Raises InvalidInput."""
    documents = yaml.read(content, path, {(api_version, kind)})
    if len(documents) != 1:
        count = "no document" if not documents else "more than one document"
        hint = f"keep exactly one, with apiVersion: {api_version} and kind: {kind}"
        raise InvalidInput(
            [Fault(path, documents[1].line if documents else 0, f"holds {count} of kind {kind}", hint)]
        )
    return documents[0]


def at_place(document: Document, pointer: Pointer, message: str, hint: str = "") -> Fault:
    """A fault of one field, for rules that need more than that field."""
    return Fault(document.path, document.line_of(pointer), f"{dotted(pointer)} {message}", hint)


def dotted(pointer: Pointer) -> str:
    """A pointer as people write it: `spec.containerFile[0].content`."""
    text = ""
    for part in pointer:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _BARE_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text or "the document"


def _fault(detail: ErrorDetails, model: type[BaseModel], document: Document, at: Pointer) -> Fault:
    place: Pointer = detail["loc"]
    message, hint = _wording(detail, model)
    if place and place[-1] == "[key]":  # pydantic's mark for a complaint about a mapping's key
        place = place[:-1]
    return at_place(document, (*at, *place), message, hint)


def _wording(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    kind, found = detail["type"], detail["input"]
    if kind == "rule":
        context = detail["ctx"]
        return context["message"], context["hint"]
    if kind == "missing":
        return "is missing", "add it"
    if kind == "extra_forbidden":
        return "is an unknown field", did_you_mean(
            str(detail["loc"][-1]), _known_fields(model, detail["loc"])
        )
    if kind in _WANTED:
        hint = ""
        if found is None:
            hint = "give it a value, or leave the field out"
        elif kind == "string_type" and not isinstance(found, (dict, list)):
            hint = "put it in quotes"
        return f"must be {_WANTED[kind]}, not {_kind_of(found)}", hint
    return f"is not valid: {detail['msg']}", ""


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "empty (null)"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _known_fields(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The keys that the model has where `place`, an unknown key, stands."""
    current: type[BaseModel] | None = model
    for part in place[:-1]:
        if current is None:
            return []
        if isinstance(part, str):
            found = (f.annotation for f in current.model_fields.values() if f.alias == part)
            current = _model_in(next(found, None))
    return [f.alias or name for name, f in current.model_fields.items()] if current else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that an annotation such as `list[Model] | None` is about."""
    pending: list[Any] = [annotation]
    while pending:
        candidate = pending.pop()
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
        pending.extend(get_args(candidate))
    return None
