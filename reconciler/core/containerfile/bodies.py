"""The here-documents of COPY and ADD: files whose text the builder expands.

Belongs here: BuildKit's expansion of such a text, as far as it is plain. Does not belong here: words
(`expand`).
"""

from __future__ import annotations

import re
from typing import Final

from reconciler.core.containerfile.scope import WordScope
from reconciler.core.containerfile.syntax import Heredoc
from reconciler.core.containerfile.values import ExpansionError, Json, Text, encode, join, literal

_NAME: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)|([0-9]+|[@*#?\-$!]))")
_USED: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)|[{:+\-?#%/]([A-Za-z_][A-Za-z0-9_]*)")


def heredoc_file(heredoc: Heredoc, scope: WordScope) -> dict[str, Json]:
    """The canonical form of one here-document as a file.

    A text with forms that versions of the builder expand differently stays as it is, with the variables it
    names. Raises ExpansionError for a text that the builder refuses.
    """
    body = heredoc.body.removeprefix("\n") + "\n"
    if not heredoc.expand:
        return {"name": heredoc.name, "text": body}
    scope.meter.spend(len(body))
    text = _expanded(body, scope)
    if text is not None:
        return {"name": heredoc.name, "text": encode(text)}
    names = sorted({first or second for first, second in _USED.findall(body)})
    return {
        "name": heredoc.name,
        "template": body,
        "variables": {name: encode(scope.lookup(name)) for name in names},
    }


def _expanded(body: str, scope: WordScope) -> Text | None:
    """The text with its variables replaced; None when it has more than plain variables.

    Quotes stay in the text, and single ones keep variables from being replaced.
    """
    texts: list[Text] = []
    place = start = 0
    double = False
    while place < len(body):
        char = body[place]
        if char == '"':
            double = not double
        elif char == "'" and not double:
            place = body.find("'", place + 1)
            if place < 0:
                raise ExpansionError(
                    "a here-document has a single quote that is not closed; quote its delimiter"
                )
        elif char == "\\":
            if double and body[place + 1 : place + 2] not in ('"', "$", "\\"):
                return None
            place += 1
        elif char == "$":
            match = _NAME.match(body, place)
            if match is not None:
                texts += [literal(body[start:place]), scope.lookup(match[1] or match[2] or "")]
                place = start = match.end()
                continue
            if body[place + 1 : place + 2] == "{" or body[place + 1 : place + 2].isalnum():
                return None
        place += 1
    if double:
        raise ExpansionError("a here-document has a double quote that is not closed; quote its delimiter")
    return join([*texts, literal(body[start:])])
