"""White space between the words of a text that nothing decides.

Belongs here: a reader of words so narrow that every blank it meets certainly stands between two of them, in every
shell. Does not belong here: syntax (`reader`), or which texts may be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reconciler.core.shell.names import DANGEROUS

_BLANKS: Final = re.compile(r"[ \t]{2,}|\t")
_VALUE: Final = r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})"
# A `[` within a word may begin the index of an array, and blanks are part of that.
_TOKEN: Final = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|(?P<redirect>[0-9]*(?:>>|>\||>&|<&|<>|>|<(?!<)))"
    r"|(?P<joint>&&|\|\||[;&|])"
    r"|(?P<word>(?<![^ \t;&|])(?:\[\[?|\]\]?|!)(?![^ \t;&|])"
    rf"|(?:[A-Za-z0-9_./:@%+,=~*?^{{}}-]|{_VALUE}|\\[!-/:-@\[-`{{-~]|'[^'\n]*'"
    rf'|"(?:[^"\\$`\n]|\\[^\n]|{_VALUE})*")+)',
    re.ASCII,
)
_NAME: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+:@%,-]*|\[\[?|:", re.ASCII)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_OPENERS: Final = frozenset(["if", "then", "elif", "else", "do", "while", "until", "{", "!"])
_READ: Final = frozenset(["fi", "done", "for", "}"])
# bash holds its text in a variable, and the machine shows it to those who list processes.
_TELLING: Final = re.compile(
    r"BASH|/proc\b|\b(?:ps|pgrep|pkill|pstree|top|command)\b|\bset\b(?![ \t]+[-+][a-z])"
    r"|\bexport\b(?![ \t]+[A-Za-z_]\w*=[^\s;&|]*[ \t]*(?:[;&|]|$))",
    re.ASCII,
)


def single_blanks(text: str) -> str:
    """The text with one blank wherever there are more between two words; as it is where that is not certain.

    Without a line end, a comment, a here-document, a substitution or arithmetic, and with quotes left alone, blanks
    only divide words, and how many there are is lost before anything runs. A text that may look at itself keeps them.
    """
    if not _BLANKS.search(text) or _TELLING.search(text):
        return text
    pieces = list(_pieces(text))
    return "".join(pieces) if pieces and pieces[-1] else text


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces, blanks shortened; an empty one at the end where the text is not read."""
    place = 0
    named = target = False  # whether this command has its name, and whether the next word is a redirection's
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            yield ""
            return
        place = token.end()
        if token.lastgroup == "blank":
            yield " "
            continue
        if token.lastgroup == "redirect":
            target = True
        elif token.lastgroup == "joint":
            named = target = False
        elif target:
            target = False
        elif not named:
            word = token[0]
            named = word not in _OPENERS and not _ASSIGNMENT.fullmatch(word)
            if named and not _plain(word):
                yield ""
                return
        yield token[0]


def _plain(name: str) -> bool:
    """Whether a command's name says which command it is, and that is none to beware of."""
    return name in _READ or (name not in DANGEROUS and _NAME.fullmatch(name) is not None)
