"""Splitting one logical line into keyword, flags and words, as imagebuilder does.

Belongs here: word splitting without giving variables a value. Quotes stay in words and are taken out of
flags. Does not belong here: the meaning of any word. Rules observed in openshift/imagebuilder
`dockerfile/parser`.
"""

from __future__ import annotations

import re
from typing import Final

SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Go's `unicode.IsSpace` holds to be white space; Python's `str.isspace` knows four more characters."""

_ASCII_SPACE: Final = "\t\n\v\f\r "
"""Around flags, which the builder reads byte by byte: wider white space is part of what follows there."""

BLANKS: Final = re.compile(r"[\t\v\f\r ]+")
"""Between the keyword, its arguments, and the words of FROM, COPY, EXPOSE and their kin."""


def split_keyword(line: str) -> tuple[str, str]:
    """The first word in upper case, and the rest of the line.

    A word beyond ASCII stays as it is: Python's capitals of U+017F and its kin are not Go's.
    """
    parts = BLANKS.split(line.strip(SPACE), maxsplit=1)
    name = parts[0].upper() if parts[0].isascii() else parts[0]
    return name, parts[1] if len(parts) > 1 else ""


def split_flags(text: str) -> tuple[tuple[str, ...], str]:
    """Take the leading words that start with `--` off, quotes and backslashes resolved; give them and the
    rest.

    A lone `--` ends the flags. Raises ValueError for characters outside ASCII in a flag: buildah reads flags
    byte by byte and garbles them.
    """
    flags: list[str] = []
    position = 0
    while True:
        while position < len(text) and text[position] in _ASCII_SPACE:
            position += 1
        if not text.startswith("--", position):
            return tuple(flags), text[position:].strip(SPACE)
        flag, position = _flag(text, position)
        if not flag.isascii():
            raise ValueError("a flag has a character outside ASCII, which buildah garbles")
        if flag == "--":
            return tuple(flags), text[position:].strip(SPACE)
        flags.append(flag)


def _flag(text: str, position: int) -> tuple[str, int]:
    """The flag that starts at `position`, and where it ends."""
    word: list[str] = []
    quote = ""
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
            word.append(text[position : position + 1])
        elif quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "'\"":
            quote = char
        elif char in _ASCII_SPACE:
            break
        else:
            word.append(char)
        position += 1
    return "".join(word), position


def split_words(text: str, escape: str) -> list[str]:
    """Words of ENV, LABEL and ARG: separated by white space outside quotes; quotes and escapes are kept."""
    words: list[str] = []
    word: list[str] = []
    quote = ""
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if not quote and char in SPACE:
            if word:
                words.append("".join(word))
                word = []
            continue
        if char == escape and quote != "'":
            if position == len(text):
                break
            word.append(char + text[position])
            position += 1
            continue
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        word.append(char)
    if word:
        words.append("".join(word))
    return words


def split_pairs(text: str, escape: str) -> tuple[str, ...]:
    """Names and values of ENV and LABEL in turn, in the new form (`a=b c=d`) or the old one (`a b`).

    Raises ValueError when a name has no value.
    """
    words = split_words(text, escape)
    if not words:
        return ()
    if "=" not in words[0]:
        parts = BLANKS.split(text, maxsplit=1)
        if len(parts) < 2:
            raise ValueError("a name without a value")
        return parts[0], parts[1]
    pairs: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not of the form name=value")
        pairs += [name, value]
    return tuple(pairs)
