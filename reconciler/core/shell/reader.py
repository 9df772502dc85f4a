"""shfmt's JSON to a typed tree: an allow-list of node types, of their fields, and of how they are spelled.

Belongs here: everything about that format (shfmt 3.14: operators are texts, positions are byte offsets), and the
rule that positions are trusted only where the source confirms them. Does not belong here: meaning (`gate`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from reconciler.core.shell.limits import MAX_DEPTH
from reconciler.core.shell.tree import (
    AndOr,
    Arm,
    Assignment,
    Case,
    Command,
    Comparison,
    Dialect,
    Document,
    Double,
    For,
    Group,
    If,
    Literal,
    Parameter,
    Part,
    Pipeline,
    Redirect,
    Simple,
    Single,
    Statement,
    Substitution,
    Unproven,
    While,
    Word,
)

Node = Mapping[str, Any]


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Positions of punctuation, and comments: they carry no meaning of their own.
_IGNORED: Final = _fields(
    "Type Pos End Comments Last CondLast ThenLast DoLast Position Semicolon OpPos Left Right Lparen "
    "Rparen Lbrace Rbrace ThenPos FiPos WhilePos ForPos DoPos DonePos InPos Case In Esac Dollar ValuePos "
    "ValueEnd"
)
_REDIRECTS: Final = frozenset((">", ">>", "<", ">|", "<>", ">&", "<&", "<<", "<<-"))
_DELIMITER: Final = re.compile(r"""(["']?)([A-Za-z0-9_.-]+)\1""")
_PARAMETER: Final = re.compile(
    r"\$(?:(?P<short>[A-Za-z_]\w*|[0-9@*#?$!-])"
    r"|\{(?P<length>#)?(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])"
    r"(?P<operator>:?[-+=?]|%%?|##?|//?[#%]?|\^\^?|,,?)?(?P<operand>(?(operator)[^'\"\\`{}()~]*|))\})",
    re.ASCII,
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COMPARISONS: Final = frozenset(("=", "==", "!="))
_DYNAMIC_TESTS: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"))


def read(tree: object, text: str, dialect: Dialect) -> tuple[Statement, ...]:
    """The program that `tree` says `text` is. Raises Unproven for whatever is not on the list."""
    if not isinstance(tree, dict):
        raise Unproven("no tree")
    reader = _Reader(text.encode(), dialect)
    try:
        return reader.statements(reader.fields(tree, "Stmts").get("Stmts"), 0)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Unproven("the tree has another shape than expected") from error


class _Reader:
    """Reads one tree over one source."""

    def __init__(self, source: bytes, dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect
        self._commands: dict[str, Callable[[Node, int], Command]] = {
            "CallExpr": self._call,
            "DeclClause": self._export,
            "TestClause": self._test,
            "BinaryCmd": self._binary,
            "IfClause": self._if,
            "WhileClause": self._while,
            "ForClause": self._for,
            "CaseClause": self._case,
            "Block": self._block,
            "Subshell": self._subshell,
        }

    def fields(self, node: Node, known: str) -> Node:
        """The node, after making sure that it has no other fields than `known` ones."""
        if not node.keys() <= _IGNORED | _fields(known):
            raise Unproven(f"fields {sorted(node.keys())} of {node.get('Type')}")
        return node

    def statements(self, nodes: Any, depth: int) -> tuple[Statement, ...]:
        """A list of statements."""
        if depth > MAX_DEPTH:
            raise Unproven("nested too deeply")
        return tuple(self._statement(node, depth + 1) for node in nodes or ())

    def _slice(self, start: int, end: int) -> str:
        if not 0 <= start <= end <= len(self._source):
            raise Unproven("positions outside the text")
        return self._source[start:end].decode()

    def _text(self, node: Node) -> str:
        return self._slice(node["Pos"]["Offset"], node["End"]["Offset"])

    def _statement(self, node: Node, depth: int) -> Statement:
        self.fields(node, "Cmd Negated Background Redirs")
        if depth > MAX_DEPTH:
            raise Unproven("nested too deeply")
        redirects = tuple(self._redirect(one, depth) for one in node.get("Redirs") or ())
        command: Command = Simple()
        if (inner := node.get("Cmd")) is not None:
            command = self._commands.get(inner["Type"], self._refused)(inner, depth)
        elif not redirects:
            raise Unproven("a statement without a command")
        background = bool(node.get("Background"))
        if background:
            # `a &>f` is one redirection to bash, and a background job to dash.
            after = node["Semicolon"]["Offset"]
            if self._source[after : after + 1] != b"&" or self._source[after + 1 : after + 2] in (b">", b"&"):
                raise Unproven("an ambiguous &")
        return Statement(command, redirects, bool(node.get("Negated")), background)

    def _refused(self, node: Node, depth: int) -> Command:
        raise Unproven(f"{node['Type']} at depth {depth}")

    def _call(self, node: Node, depth: int) -> Command:
        self.fields(node, "Assigns Args")
        assigns = tuple(self._assignment(one, depth) for one in node.get("Assigns") or ())
        return Simple(assigns, tuple(self._word(one, depth) for one in node.get("Args") or ()))

    def _assignment(self, node: Node, depth: int) -> Assignment:
        self.fields(node, "Name Value")
        name = node["Name"]["Value"]
        whole, start = self._text(node), node["Pos"]["Offset"] + len(name) + 1
        word = Word((), "") if node.get("Value") is None else self._word(node["Value"], depth, start)
        if whole != f"{name}={word.text}" or not _NAME.fullmatch(name):
            raise Unproven("an assignment that is spelled otherwise")
        return Assignment(name, word)

    def _export(self, node: Node, depth: int) -> Command:
        """bash's own node for `export`, as the plain command it also is."""
        if self.fields(node, "Variant Args")["Variant"]["Value"] != "export":
            raise Unproven("a declaration")
        words = [Word((Literal("export"),), "export")]
        for one in node.get("Args") or ():
            self.fields(one, "Name Value Naked")
            if one.get("Naked"):
                if (name := self._text(one)) != one["Name"]["Value"]:
                    raise Unproven("export of something else than a name")
                words.append(Word((Literal(name),), name))
            else:
                given = self._assignment(one, depth)
                head = f"{given.name}="
                words.append(Word((Literal(head), *given.word.parts), head + given.word.text))
        return Simple((), tuple(words))

    def _test(self, node: Node, depth: int) -> Command:
        inner = self.fields(node, "X")["X"]
        words: list[Word] = []
        self._check_test(inner, depth, words)
        single = inner["Type"] == "BinaryTest" and inner["Op"] in _COMPARISONS and len(words) == 2
        return Comparison(tuple(words), inner["Op"] if single else "", self._text(node))

    def _check_test(self, node: Node, depth: int, words: list[Word]) -> None:
        """No arithmetic, nothing that assigns. How operators bind is not believed: shfmt errs after `!`."""
        if depth > MAX_DEPTH:
            raise Unproven("nested too deeply")
        if node["Type"] == "Word":
            words.append(self._word(node, depth))
            return
        if node["Type"] not in ("BinaryTest", "UnaryTest", "ParenTest"):
            raise Unproven(node["Type"])
        self.fields(node, "X Y Op")
        if node.get("Op", "") in _DYNAMIC_TESTS:
            raise Unproven("arithmetic in a test")
        for side in ("X", "Y"):
            if node.get(side) is not None:
                self._check_test(node[side], depth + 1, words)

    def _binary(self, node: Node, depth: int) -> Command:
        """Chains lean to one side, as long as they are: they are walked, not recursed into."""
        operators = ("|",) if self.fields(node, "Op X Y")["Op"] == "|" else ("&&", "||")
        spine: list[tuple[str, Node]] = []
        current: Node = {"Cmd": node}
        while self._continues(current, operators):
            inner = self.fields(current["Cmd"], "Op X Y")
            spine.append((inner["Op"], inner["Y"]))
            current = inner["X"]
        if not spine:
            raise Unproven(str(node["Op"]))
        first = self._statement(current, depth + 1)
        rest = tuple((operator, self._statement(one, depth + 1)) for operator, one in reversed(spine))
        if operators == ("|",):
            return Pipeline((first, *(one for _, one in rest)))
        return AndOr(first, rest)

    def _continues(self, node: Node, operators: tuple[str, ...]) -> bool:
        inner = node.get("Cmd") or {}
        bare = not (node.get("Negated") or node.get("Background") or node.get("Redirs"))
        return bare and inner.get("Type") == "BinaryCmd" and inner.get("Op") in operators

    def _if(self, node: Node, depth: int) -> Command:
        self.fields(node, "Cond Then Else")
        orelse: tuple[Statement, ...] = ()
        if (other := node.get("Else")) is not None:
            if other.get("Cond"):
                if depth > MAX_DEPTH:
                    raise Unproven("nested too deeply")
                orelse = (Statement(self._if(other, depth + 1)),)
            else:
                orelse = self.statements(self.fields(other, "Then")["Then"], depth)
        return If(self.statements(node["Cond"], depth), self.statements(node["Then"], depth), orelse)

    def _while(self, node: Node, depth: int) -> Command:
        self.fields(node, "Until Cond Do")
        keyword = "until" if node.get("Until") else "while"
        return While(keyword, self.statements(node["Cond"], depth), self.statements(node["Do"], depth))

    def _for(self, node: Node, depth: int) -> Command:
        self.fields(node, "Loop Do")
        loop = node["Loop"]
        if loop["Type"] != "WordIter":
            raise Unproven("an arithmetic loop")
        self.fields(loop, "Name Items")
        listed = "InPos" in loop
        words = tuple(self._word(one, depth) for one in loop.get("Items") or ()) if listed else None
        if not _NAME.fullmatch(loop["Name"]["Value"]):
            raise Unproven("a loop over something else than a name")
        return For(loop["Name"]["Value"], words, self.statements(node["Do"], depth))

    def _case(self, node: Node, depth: int) -> Command:
        self.fields(node, "Word Items")
        arms = []
        for item in node.get("Items") or ():
            if self.fields(item, "Op Patterns Stmts")["Op"] != ";;":
                raise Unproven("an arm that falls through")
            patterns = tuple(self._word(one, depth) for one in item["Patterns"])
            arms.append(Arm(patterns, self.statements(item.get("Stmts"), depth)))
        return Case(self._word(node["Word"], depth), tuple(arms))

    def _block(self, node: Node, depth: int) -> Command:
        return Group(self.statements(self.fields(node, "Stmts")["Stmts"], depth), False)

    def _subshell(self, node: Node, depth: int) -> Command:
        return Group(self.statements(self.fields(node, "Stmts")["Stmts"], depth), True)

    def _redirect(self, node: Node, depth: int) -> Redirect:
        self.fields(node, "Op N Word Hdoc")
        fd = "" if node.get("N") is None else node["N"]["Value"]
        operator, word = node["Op"], self._word(node["Word"], depth)
        if operator not in _REDIRECTS or not re.fullmatch(r"[0-9]?", fd, re.ASCII):
            raise Unproven(f"redirection {fd}{operator}")
        if operator in (">&", "<&") and not re.fullmatch(r"[0-9]|-", word.literal or "", re.ASCII):
            raise Unproven("a file descriptor that is no number")
        if operator not in ("<<", "<<-"):
            return Redirect(fd, operator, word)
        return Redirect(fd, operator, word, self._document(operator, word, node.get("Hdoc"), depth))

    def _document(self, operator: str, word: Word, body: Node | None, depth: int) -> Document:
        found = _DELIMITER.fullmatch(word.text)
        if found is None:
            raise Unproven("an unusual end of a here-document")
        end = found[2]
        if body is None:
            return Document("", end, ())
        start, stop = body["Pos"]["Offset"], body["End"]["Offset"]
        text, rest = self._slice(start, stop), self._source[stop : stop + 1]
        # The parser counts the line that ends the document to its body.
        if self._source[start - 1 : start] != b"\n" or rest not in (b"", b"\n") or not text.endswith(end):
            raise Unproven("a here-document that ends elsewhere")
        text = text.removesuffix(end)
        if not (text if operator == "<<" else text.rstrip("\t")).endswith("\n"):
            raise Unproven("a here-document that ends elsewhere")
        if found[1]:
            return Document(text, end, ())
        if "\\\n" in text:
            raise Unproven("a joined line in a here-document")
        parts = tuple(self._part(one, depth) for one in body["Parts"] if one["Type"] != "Lit")
        return Document(text, end, parts)

    def _word(self, node: Node, depth: int, start: int | None = None) -> Word:
        self.fields(node, "Parts")
        text = self._text(node)
        if start is not None and node["Pos"]["Offset"] != start:
            raise Unproven("a gap before a value")
        return Word(self._parts(node["Parts"], node["Pos"]["Offset"], node["End"]["Offset"], depth), text)

    def _parts(self, nodes: Any, start: int, end: int, depth: int) -> tuple[Part, ...]:
        """Parts of a word, which must cover it without a gap."""
        found: list[Part] = []
        for node in nodes or ():
            if node["Pos"]["Offset"] != start:
                raise Unproven("a gap in a word")
            start = node["End"]["Offset"]
            part = self._part(node, depth)
            last = found[-1] if found else None
            if isinstance(last, Literal) and last.text.endswith("$") and isinstance(part, Single | Double):
                # $'…' and $"…" are a dollar before a quoted part to some shells, and quotes of their own to others.
                raise Unproven("a dollar before quotes")
            found.append(part)
        if start != end:
            raise Unproven("a gap in a word")
        return tuple(found)

    def _part(self, node: Node, depth: int) -> Part:
        text, kind = self._text(node), node["Type"]
        if kind == "Lit":
            if self.fields(node, "Value")["Value"] != text:
                raise Unproven("a joined line in a word")
            return Literal(text)
        if kind == "SglQuoted":
            value = self.fields(node, "Value").get("Value", "")
            if text != f"'{value}'":
                raise Unproven("unusual quotes")
            return Single(value)
        if kind == "DblQuoted":
            return self._double(node, text, depth)
        if kind == "ParamExp":
            return self._parameter(text)
        if kind == "CmdSubst":
            return self._substitution(node, text, depth)
        raise Unproven(kind)

    def _double(self, node: Node, text: str, depth: int) -> Part:
        self.fields(node, "Parts")
        if len(text) < 2 or text[0] != '"' or text[-1] != '"':
            raise Unproven("unusual quotes")
        inside = self._parts_inside(node, depth)
        # What a quote inside a substitution in backquotes means differs.
        if any(isinstance(part, Substitution) and part.backquoted and '"' in part.text for part in inside):
            raise Unproven("quotes in backquotes in quotes")
        return Double(inside)

    def _parts_inside(self, node: Node, depth: int) -> tuple[Part, ...]:
        found: list[Part] = []
        start = node["Pos"]["Offset"] + 1
        for one in node.get("Parts") or ():
            if one["Pos"]["Offset"] != start:
                raise Unproven("a gap in quotes")
            start = one["End"]["Offset"]
            found.append(self._part(one, depth))
        if start != node["End"]["Offset"] - 1:
            raise Unproven("a gap in quotes")
        return tuple(found)

    def _parameter(self, text: str) -> Part:
        """The source decides, not the tree: the forms that all shells read alike are few."""
        found = _PARAMETER.fullmatch(text)
        if found is None:
            raise Unproven("an unusual parameter expansion")
        operator = found["operator"] or ""
        if self._dialect is Dialect.SH and operator[:1] in ("/", "^", ","):
            raise Unproven("an expansion that only some shells know")
        if found["length"]:
            if operator or found["name"] in ("@", "*", "#", "?", "$", "!", "-"):
                raise Unproven("an unusual length")
            operator = "length"
        return Parameter(found["short"] or found["name"], operator, found["operand"] or "", text)

    def _substitution(self, node: Node, text: str, depth: int) -> Part:
        self.fields(node, "Stmts Backquotes")
        backquoted = bool(node.get("Backquotes"))
        if backquoted and ("\\" in text or text[:1] + text[-1:] != "``"):
            raise Unproven("a backslash in backquotes")
        if not backquoted and (text[:2] != "$(" or text[-1:] != ")"):
            raise Unproven("an unusual substitution")
        body = self.statements(node.get("Stmts"), depth + 1)
        if not body or "<<" in text:
            raise Unproven("a substitution without a command, or with a here-document")
        return Substitution(body, backquoted, text)
