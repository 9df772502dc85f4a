"""Partial evaluation: a program and what is known, to what is left of the program.

Belongs here: the meaning of commands, step by step, with what is known before and after each. Does not belong here:
whether a text may be evaluated at all (`gate`).

The rule for each node: what is left does the same as the node in every shell, given what is known; status included,
and whether `set -e` sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from reconciler.core.shell import decide
from reconciler.core.shell.gate import Facts
from reconciler.core.shell.residue import (
    COLON,
    FALSE,
    QUIET,
    TRUE,
    Background,
    Chain,
    Compound,
    Leaf,
    Prefixed,
    Redirected,
    Residual,
    Section,
    chained,
    conditional,
    is_constant,
    render,
    sequence,
)
from reconciler.core.shell.scan import assigned, everything, may_run_wild, plain_format, splits
from reconciler.core.shell.tree import (
    AndOr,
    Case,
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
    Unproven,
    While,
    Word,
)
from reconciler.core.shell.values import Env, Values, join


class Status(Enum):
    """How a command ends."""

    ZERO = "zero"
    NONZERO = "nonzero"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a command, and what is known after it. `env` is None when the shell has ended by then."""

    node: Residual
    env: Env | None
    status: Status = Status.UNKNOWN

    @property
    def constant(self) -> bool:
        """Whether nothing is left but a status."""
        return is_constant(self.node)


def _decided(result: bool, env: Env) -> Outcome:
    return Outcome(TRUE, env, Status.ZERO) if result else Outcome(FALSE, env, Status.NONZERO)


class Evaluator:
    """Evaluates one program. Its depth is bounded by the reader's."""

    def __init__(self, dialect: Dialect, facts: Facts) -> None:
        self._dialect = dialect
        self._facts = facts

    def statements(self, body: tuple[Statement, ...], env: Env) -> Outcome:
        """A list. What follows the end of the shell is left out."""
        items: list[Residual] = []
        current: Env | None = env
        status = Status.ZERO
        for one in body:
            if current is None:
                break
            found = self._statement(one, current)
            items.append(found.node)
            current, status = found.env, found.status
        return Outcome(sequence(items), current, status)

    def _statement(self, one: Statement, env: Env) -> Outcome:
        if isinstance(one.command, Simple):
            found = self._simple(one.command, one.redirects, env)
        else:
            found = self._command(one.command, env)
            if one.redirects:
                # When a redirection fails, the command does not run.
                words, documents = self._redirects(one.redirects, env)
                found = Outcome(Redirected(found.node, words, documents), join(env, found.env))
        if one.negated:
            found = self._negated(found)
        if one.background:
            after = env.without(assigned((one,)))
            found = Outcome(Background(found.node), after, Status.ZERO)
        return found

    def _negated(self, found: Outcome) -> Outcome:
        if found.constant and found.status is Status.ZERO:
            return Outcome(QUIET, found.env, Status.NONZERO)
        if found.constant:
            return Outcome(TRUE, found.env, Status.ZERO)
        return Outcome(Prefixed(found.node), found.env)

    def _command(self, command: object, env: Env) -> Outcome:
        if isinstance(command, AndOr):
            return self._and_or(command, env)
        if isinstance(command, Pipeline):
            return self._pipeline(command, env)
        if isinstance(command, If):
            return self._if(command, env)
        if isinstance(command, While):
            return self._while(command, env)
        if isinstance(command, For):
            return self._for(command, env)
        if isinstance(command, Case):
            return self._case(command, env)
        if isinstance(command, Group):
            return self._group(command, env)
        if isinstance(command, Comparison):
            return self._comparison(command, env)
        raise Unproven("an unknown command")

    # Simple commands

    def _simple(self, command: Simple, redirects: tuple[Redirect, ...], env: Env) -> Outcome:
        name = command.words[0].literal if command.words else None
        if not redirects and not command.assigns and (result := self._certain(command, env)) is not None:
            return _decided(result, env)
        texts = [f"{one.name}={self._word(one.word, env)}" for one in command.assigns]
        texts += [self._word(word, env) for word in command.words]
        shown, documents = self._redirects(redirects, env)
        node = Leaf(" ".join([*texts, shown] if shown else texts), documents)
        after: Env | None
        if not command.words:
            after = self._assign(command, env)
        elif name == "exit":
            after = None
        else:
            after = self._after(command, env)
        return Outcome(node, join(env, after) if redirects else after)

    def _certain(self, command: Simple, env: Env) -> bool | None:
        """The status of a command that does nothing else."""
        if not command.words:
            return None
        name, arguments = command.words[0].literal, command.words[1:]
        last = arguments[-1].literal if arguments else None
        if name in ("true", ":", "false"):
            return None if arguments else name != "false"
        if name == "test" or (name == "[" and last == "]"):
            words = arguments if name == "test" else arguments[:-1]
            return decide.bracket(words, env, self._dialect, unheard=not self._facts.captured)
        if name == "[[" and len(arguments) == 4 and not self._facts.captured:
            operator = arguments[1].literal or ""
            if operator in ("=", "==", "!="):
                return decide.double_bracket((arguments[0], arguments[2]), operator, env, Dialect.SH)
        return None

    def _assign(self, command: Simple, env: Env) -> Env:
        # Shells differ in whether a later assignment sees an earlier one of the same command.
        names = [one.name for one in command.assigns]
        seen = env.without(names) if len(names) > 1 else env
        after = env.without(names)
        for one in command.assigns:
            values = None if names.count(one.name) > 1 else seen.value(one.word)
            after = after.having(one.name, values if one.word.parts else frozenset({""}))
        return after

    def _after(self, command: Simple, env: Env) -> Env:
        """What is known after a command with words."""
        name, arguments = command.words[0].literal, command.words[1:]
        if name == "export":
            return self._export(arguments, env)
        if name in ("test", "["):
            words = arguments[:-1] if name == "[" else arguments
            return env if decide.harmless(words, env) else env.gone_wild()
        return env if name != "printf" or plain_format(arguments) else env.gone_wild()

    def _export(self, arguments: tuple[Word, ...], env: Env) -> Env:
        after = env
        for word in arguments:
            head = word.parts[0]
            assert isinstance(head, Literal)
            name, equals, rest = head.text.partition("=")
            if not equals:
                continue
            value = Word((*((Literal(rest),) if rest else ()), *word.parts[1:]), "")
            # Some shells split this value, and what is split off may be another assignment.
            values = env.argument(value)
            if values is None and self._dialect is Dialect.SH and splits(value):
                return env.gone_wild()
            after = after.having(name, values if value.parts else frozenset({""}))
        return after

    def _comparison(self, command: Comparison, env: Env) -> Outcome:
        if command.operator:
            left, right = command.words
            result = decide.double_bracket((left, right), command.operator, env, Dialect.BASH)
            if result is not None:
                return _decided(result, env)
        return Outcome(Leaf(command.text), env)

    # Words

    def _word(self, word: Word, env: Env) -> str:
        """The text of a word, evaluated where it has commands of its own."""
        return "".join(self._part(part, env) for part in word.parts)

    def _part(self, part: Part, env: Env) -> str:
        if isinstance(part, Literal | Parameter):
            return part.text
        if isinstance(part, Single):
            return f"'{part.text}'"
        if isinstance(part, Double):
            return '"' + "".join(self._part(one, env) for one in part.parts) + '"'
        if part.backquoted:
            return part.text
        return f"$(\n{render(self.statements(part.body, env).node)}\n)"

    def _redirects(self, redirects: tuple[Redirect, ...], env: Env) -> tuple[str, tuple[Document, ...]]:
        texts = [f"{one.fd}{one.operator} {self._word(one.word, env)}" for one in redirects]
        return " ".join(texts), tuple(one.document for one in redirects if one.document is not None)

    # Lists and pipes

    def _and_or(self, command: AndOr, env: Env) -> Outcome:
        found = self._statement(command.first, env)
        for operator, one in command.rest:
            if found.env is None:
                # Dead from here; but what came before was tested, so `set -e` must still see a chain.
                return Outcome(chained(found.node, operator, COLON), None)
            found = self._joined(found, operator, one)
        return found

    def _joined(self, found: Outcome, operator: str, one: Statement) -> Outcome:
        """A chain with one more statement."""
        assert found.env is not None
        runs = Status.ZERO if operator == "&&" else Status.NONZERO
        if found.constant and found.status is runs:
            return self._statement(one, found.env)
        if found.constant:
            return replace(found, node=QUIET) if operator == "&&" else found
        if found.status not in (runs, Status.UNKNOWN):
            return replace(found, node=chained(found.node, operator, COLON))
        added = self._statement(one, found.env)
        env = added.env if found.status is runs else join(found.env, added.env)
        status = added.status
        if found.status is not runs and status is runs:
            status = Status.UNKNOWN
        return Outcome(chained(found.node, operator, added.node), env, status)

    def _pipeline(self, command: Pipeline, env: Env) -> Outcome:
        parts = [self._statement(one, env).node for one in command.parts]
        node = Chain(parts[0], tuple(("|", part) for part in parts[1:]))
        return Outcome(node, env.without(assigned(command.parts)))

    def _group(self, command: Group, env: Env) -> Outcome:
        found = self.statements(command.body, env)
        if not command.subshell:
            return found
        return Outcome(Compound((Section("(", found.node),), ")"), env)

    # Branches

    def _if(self, command: If, env: Env) -> Outcome:
        condition = self.statements(command.condition, env)
        if condition.env is None:
            return Outcome(conditional(condition.node, COLON, None), None)
        if condition.constant:
            body = command.then if condition.status is Status.ZERO else command.orelse
            return self.statements(body, condition.env) if body else Outcome(TRUE, condition.env, Status.ZERO)
        then = orelse = None
        if condition.status is not Status.NONZERO:
            then = self.statements(command.then, condition.env)
        if condition.status is not Status.ZERO:
            skipped = Outcome(TRUE, condition.env, Status.ZERO)
            orelse = self.statements(command.orelse, condition.env) if command.orelse else skipped
        after = join(then.env if then else None, orelse.env if orelse else None)
        statuses = {one.status for one in (then, orelse) if one is not None}
        node = conditional(
            condition.node,
            COLON if then is None else then.node,
            None if orelse is None or orelse.node == TRUE else orelse.node,
        )
        return Outcome(node, after, statuses.pop() if len(statuses) == 1 else Status.UNKNOWN)

    def _case(self, command: Case, env: Env) -> Outcome:
        values = env.value(command.word)
        left: Values | None = values
        arms: list[tuple[str, Outcome]] = []
        certain = True
        for arm in command.arms:
            if left is not None:
                matches = {value: _best(arm.patterns, value, env) for value in left}
                if all(match is decide.Match.NO for match in matches.values()):
                    continue
                certain = certain and set(matches.values()) == {decide.Match.YES}
                left = frozenset(value for value, match in matches.items() if match is not decide.Match.YES)
            found = self._body(arm.body, env)
            arms.append(("|".join(self._word(one, env) for one in arm.patterns), found))
            if left is not None and not left:
                break
        if values is not None and not arms:
            return Outcome(TRUE, env, Status.ZERO)
        if values is not None and certain and len(arms) == 1:
            return arms[0][1]
        after = env if left is None or left else None
        for _, found in arms:
            after = join(after, found.env)
        sections = [Section(f"case {self._word(command.word, env)} in", None)]
        for shown, found in arms:
            sections += [Section(f"({shown})", found.node), Section(";;", None)]
        return Outcome(Compound(tuple(sections), "esac"), after)

    def _body(self, body: tuple[Statement, ...], env: Env) -> Outcome:
        return self.statements(body, env) if body else Outcome(TRUE, env, Status.ZERO)

    # Loops

    def _while(self, command: While, env: Env) -> Outcome:
        entry = self._entry((*command.condition, *command.body), env)
        condition = self.statements(command.condition, entry)
        body = self.statements(command.body, condition.env or entry)
        sections = (Section(command.keyword, condition.node), Section("do", body.node))
        return Outcome(Compound(sections, "done"), entry)

    def _for(self, command: For, env: Env) -> Outcome:
        head = f"for {command.name}"
        if command.words is not None:
            head = " ".join([f"{head} in", *(self._word(word, env) for word in command.words)])
        entry = self._entry(command.body, env)
        body = self.statements(command.body, entry)
        return Outcome(Compound((Section(head, None), Section("do", body.node)), "done"), entry)

    def _entry(self, body: tuple[Statement, ...], env: Env) -> Env:
        """What is known at the start of every round, and so after the last."""
        entry = env.without(assigned(body))
        return (
            entry.gone_wild() if any(may_run_wild(one, self._dialect) for one in everything(body)) else entry
        )


def _best(patterns: tuple[Word, ...], value: str, env: Env) -> decide.Match:
    found = {decide.pattern(one, value, env) for one in patterns}
    if decide.Match.MAYBE in found:
        return decide.Match.MAYBE
    return decide.Match.YES if decide.Match.YES in found else decide.Match.NO
