"""Containerfiles that both imagebuilder and BuildKit must read alike, for hypothesis to choose from.

Every text is sound, and stays clear of what the two are known to read differently (`test_second_opinion` lists it).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[str]], str]

HEADERS: Final = {
    "": "\\",
    "# escape=`\n": "`",
    "#Escape = \\\n": "\\",
    "  # ESCAPE=`\n": "`",
    "# syntax=docker/dockerfile:1\n": "\\",
    "# check=skip=all\n": "\\",
    "# notes\n# escape=`\n": "\\",
    "\n# escape=`\n": "\\",
}
"""What stands at the top, and the escape character from there on. `~` below stands for that character."""

_BETWEEN: Final = st.sampled_from(["", "", "", "\n", "# note\n", "  # note ~\n", "\t\n", "# escape=`\n"])
_INDENT: Final = st.sampled_from(["", "", " ", "\t"])
_GAP: Final = st.sampled_from(
    [" ", " ", " ", "  ", "\t", " ~\n", " ~ \t\n  ", " ~\n# note\n", " ~\n\n  # note ~\n\n ", "\t~\n\t"]
)
_WORD: Final = st.sampled_from([
    *("a", "b-c.d", "$X", "${X:-y}", "${X+'z'}", '"q  q"', "'s $'", "a~ b", "\u00e9", "x\u00a0y", "[", "]", "a~\nb"),
    *("&&", "|", ";", "$((1<<2))", "'<<A'", '"<<B"', "<<<x", "`c`d", "h #h", "a=b", "{,}", "--late", "~$", "\\\\x"),
])  # fmt: skip
_NAME: Final = st.sampled_from(["a", "B_1", "c.d", '"e f"', "g~ h"])
_VALUE: Final = st.sampled_from(["", "1", "$X", "'a b'", '"a ~\n b"', "a~ b", "é", "=", '"x"y', "a~\nb"])
_JSON_WORD: Final = st.text("ab \"\\/'$é\u20ac\t<[],", min_size=1, max_size=6)
_TAIL: Final = st.sampled_from(["", "", "", " && x", " # y", "z", " [1]"])
_DELIMITER: Final = st.sampled_from(["EOF", "A", "x_1", "'EOF'", '"A B"', "-EOF", "-'B'"])
_BODY_LINE: Final = st.sampled_from(
    ["", "a", "# note", "FROM x", "a ~", "\tb", "\t\t", " EOF", "EOF ", "$X", "<<A", "é", "RUN <<B"]
)
_FLAGS: Final = {
    "RUN": ["--mount=type=cache,target=/c", "--mount='type=bind,source=a b,target=/b'", "--network=none"],
    "COPY": ["--from=s", '--chown="1:2"', "--chmod=0755", "--link", "--from=a\\b"],
    "ADD": ["--checksum=sha256:a", "--chown=$U", "--link=true"],
    "HEALTHCHECK": ["--interval=3s", "--retries=2", "--start-period='1m'"],
    "FROM": ["--platform=$BUILDPLATFORM", "--platform=linux/arm64"],
}
_MANY: Final = st.sampled_from(["1", "1", "2", "3", "5"])


class Writer:
    """Writes one Containerfile of drawn pieces."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def text(self) -> str:
        """A whole file with a stage."""
        header = self._draw(st.sampled_from(sorted(HEADERS)))
        parts = [self._line("ARG", self._words(_NAME)), self._instruction("FROM")]
        for _ in range(int(self._draw(st.sampled_from(["1", "3", "6"])))):
            parts.append(self._draw(_BETWEEN))
            parts.append(self._instruction(self._draw(st.sampled_from(sorted(_WRITERS)))))
        text = header + "".join(parts).replace("~", HEADERS[header])
        text = text.removesuffix("\n") if self._draw(st.sampled_from(["", "cut"])) else text
        text = text.replace("\n", "\r\n") if self._draw(st.sampled_from(["", "crlf"])) else text
        return self._draw(st.sampled_from(["", "", "\ufeff"])) + text

    def _instruction(self, keyword: str) -> str:
        return _WRITERS[keyword](self, keyword)

    def _line(self, keyword: str, arguments: str) -> str:
        spelt = self._draw(st.sampled_from([keyword, keyword.lower(), keyword.title()]))
        return f"{self._draw(_INDENT)}{spelt}{self._draw(_GAP)}{arguments}{self._draw(_INDENT)}\n"

    def _flags(self, keyword: str) -> str:
        chosen = self._draw(st.sampled_from(["", "", *_FLAGS.get(keyword, [])]))
        return chosen and chosen + self._draw(_GAP)

    def _words(self, word: st.SearchStrategy[str], first: str = "") -> str:
        words = [first] if first else []
        words += [self._draw(word) for _ in range(int(self._draw(_MANY)))]
        return "".join(one + self._draw(_GAP) for one in words[:-1]) + words[-1]

    def _json(self) -> str:
        items = [json.dumps(self._draw(_JSON_WORD)).replace("~", "") for _ in range(int(self._draw(_MANY)))]
        return "[" + f",{self._draw(_GAP)}".join(items) + "]" + self._draw(_TAIL)

    def shell(self, keyword: str) -> str:
        """RUN and its kin: text, or a JSON array at the start of it."""
        arguments = self._json() if self._draw(_INDENT) else self._words(_WORD, "cmd")
        return self._line(keyword, self._flags(keyword) + arguments)

    def pairs(self, keyword: str) -> str:
        """ENV and LABEL, in the new form or the old."""
        if self._draw(_INDENT) == "\t":
            return self._line(keyword, f"old {self._words(_WORD)}")
        pairs = [f"{self._draw(_NAME)}={self._draw(_VALUE)}" for _ in range(int(self._draw(_MANY)))]
        return self._line(keyword, self._draw(_GAP).join(pairs))

    def arguments(self, keyword: str) -> str:
        """ARG, with defaults and without."""
        return self._line(keyword, f"{self._draw(_NAME)}={self._draw(_VALUE)}")

    def transfer(self, keyword: str) -> str:
        """COPY and ADD."""
        words = self._json_pair() if self._draw(_INDENT) else self._words(_WORD, "src") + " /dest/"
        return self._line(keyword, self._flags(keyword) + words)

    def _json_pair(self) -> str:
        return json.dumps([self._draw(_JSON_WORD).replace("~", ""), "/x y"]) + self._draw(_TAIL)

    def heredoc(self, keyword: str) -> str:
        """RUN or COPY with one here-document or two."""
        keyword = keyword.split()[0]
        found = [self._draw(_DELIMITER) for _ in range(int(self._draw(st.sampled_from(["1", "2"]))))]
        rest = " /dest/" if keyword == "COPY" else self._draw(st.sampled_from(["", " bash", " > /x && y"]))
        line = self._line(keyword, self._flags(keyword) + " ".join(f"<<{one}" for one in found) + rest)
        for one in found:
            name = one.removeprefix("-").strip("\"'")
            body = [self._draw(_BODY_LINE) for _ in range(int(self._draw(_MANY)))]
            # In the body the escape character is text, and ends no line.
            line += "".join(f"{part}\n" for part in body) + f"{name}\n"
        return line

    def health(self, keyword: str) -> str:
        """HEALTHCHECK."""
        kind = self._draw(st.sampled_from(["NONE", "CMD x  y", "cmd x", 'CMD ["a", "b"] c']))
        return self._line(keyword, self._flags(keyword) + kind)

    def trigger(self, keyword: str) -> str:
        """ONBUILD, on one line: its text is compared whole."""
        inner = st.sampled_from(["RUN a  b", "copy --from=s a /x", 'CMD ["a"]', "ENV a=b", "RUN <<E\nx\nE"])
        return f"{keyword} {self._draw(inner)}\n"

    def plain(self, keyword: str) -> str:
        """What takes one text or a list of words."""
        return self._line(keyword, self._words(_WORD, "first"))

    def array(self, keyword: str) -> str:
        """SHELL."""
        return self._line(keyword, self._json())

    def base(self, keyword: str) -> str:
        """FROM."""
        name = self._draw(st.sampled_from(["", "", " AS b", " as\tc", " ~\n As d"]))
        return self._line(keyword, self._flags(keyword) + "quay.io/os/base:1" + name)


_WRITERS: Final[dict[str, Callable[[Writer, str], str]]] = {
    **dict.fromkeys(["RUN", "CMD", "ENTRYPOINT"], Writer.shell),
    **dict.fromkeys(["ENV", "LABEL"], Writer.pairs),
    **dict.fromkeys(["COPY", "ADD"], Writer.transfer),
    **dict.fromkeys(["RUN <<", "COPY <<"], Writer.heredoc),
    **dict.fromkeys(["USER", "WORKDIR", "STOPSIGNAL", "MAINTAINER", "EXPOSE", "VOLUME"], Writer.plain),
    "ARG": Writer.arguments,
    "FROM": Writer.base,
    "HEALTHCHECK": Writer.health,
    "ONBUILD": Writer.trigger,
    "SHELL": Writer.array,
}
