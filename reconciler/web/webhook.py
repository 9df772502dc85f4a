"""Webhooks: who may ask for a look, and how often the same delivery counts.

Belongs here: judging deliveries. Does not belong here: the schemes (`signatures`), paths (`app`), and what a look is.

The body is never parsed. All that a delivery can cause is a look at the remote, which says for itself what is there;
so nothing that a sender writes is believed, and there is no parser that it could break. A push that does not concern
the watched branch costs one look-up.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from reconciler.errors import ReconcilerError
from reconciler.ports import Clock
from reconciler.redaction import Redactor
from reconciler.settings import WebhookType
from reconciler.web.limits import LIMITS, Limits
from reconciler.web.metrics import Metrics
from reconciler.web.question import Question
from reconciler.web.secret_files import NoSecret, read_secret
from reconciler.web.signatures import Headers, Proof, delivery, event, proof

_log = logging.getLogger(__name__)

_REMEMBERED: Final = 10_000
_PINGS: Final = frozenset({"ping"})
_PUSHES: Final = {
    WebhookType.GITHUB: frozenset({"push", "create", "delete"}),
    WebhookType.GITEA: frozenset({"push", "create", "delete"}),
    # A system hook's header does not say what happened.
    WebhookType.GITLAB: frozenset({"push hook", "tag push hook", "system hook"}),
    WebhookType.GENERIC: frozenset(),
}
"""Events after which the remote may have another head, in lower case."""
_PULLS: Final = {
    WebhookType.GITHUB: frozenset({"pull_request"}),
    WebhookType.GITEA: frozenset({"pull_request", "pull_request_sync", "pull_request_label"}),
    WebhookType.GITLAB: frozenset({"merge request hook"}),
    WebhookType.GENERIC: frozenset(),
}
"""Events after which pull requests may be other ones."""


class Outcome(StrEnum):
    """What became of a delivery."""

    ACCEPTED = "accepted"
    REPLAYED = "replayed"
    """Its id was seen before."""
    PING = "ping"
    IGNORED = "ignored"
    """About something that moves no branch."""
    UNSIGNED = "unsigned"
    TOO_LARGE = "too-large"
    SLOW = "slow"
    UNAVAILABLE = "unavailable"
    """A secret file is missing or unusable, and no other one fits."""
    ABORTED = "aborted"


_ANSWERS: Final = {
    Outcome.ACCEPTED: (202, "accepted"),
    Outcome.REPLAYED: (202, "seen before"),
    Outcome.PING: (202, "pong"),
    Outcome.IGNORED: (202, "nothing to do for this event"),
    Outcome.UNSIGNED: (401, "no valid signature"),
    Outcome.TOO_LARGE: (413, "too large"),
    Outcome.SLOW: (408, "too slow"),
    Outcome.UNAVAILABLE: (503, "no secret to compare with; try again later"),
    Outcome.ABORTED: (400, "not complete"),
}


@dataclass(frozen=True, slots=True)
class Hook:
    """One sender's way to one source: `source` is handed to `look_now`, `secret_files` are absolute paths."""

    source: str
    sender: WebhookType
    secret_files: tuple[Path, ...]


class _TooLarge(Exception):
    pass


class Hooks:
    """All webhooks of one server. Hooks of the same sender share a path; their secrets tell them apart.

    `look_now` is called on the server's thread with each source whose secret the sender knows, once per delivery. It
    must return at once, and join calls together itself: not every sender signs its delivery ids. `look_at_pulls` is
    the same for what concerns only pull requests; without it those events are ignored.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        look_now: Callable[[str], None],
        metrics: Metrics,
        redactor: Redactor,
        clock: Clock,
        limits: Limits = LIMITS,
        look_at_pulls: Callable[[str], None] | None = None,
    ) -> None:
        self._hooks = tuple(hooks)
        self._look_now = look_now
        self._look_at_pulls = look_at_pulls
        self._metrics = metrics
        self._redactor = redactor
        self._clock = clock
        self._limits = limits
        self._secrets = {
            path: Question(partial(read_secret, path), limits.answer)
            for hook in self._hooks
            for path in hook.secret_files
        }
        self._seen = Deliveries(_REMEMBERED)

    @property
    def senders(self) -> tuple[WebhookType, ...]:
        """The types that are configured, each once."""
        return tuple(sender for sender in WebhookType if any(hook.sender is sender for hook in self._hooks))

    async def receive(self, sender: WebhookType, request: Request) -> Response:
        """Judge a delivery and answer it. What is wrong with it is logged and counted, and told in one word."""
        outcome = await self._judge(sender, request)
        self._metrics.webhook(sender, outcome)
        if outcome in (Outcome.UNSIGNED, Outcome.TOO_LARGE, Outcome.SLOW):
            _log.warning("a webhook of type %s was refused: %s", sender, _ANSWERS[outcome][1])
        status, text = _ANSWERS[outcome]
        return PlainTextResponse(text, status)

    async def _judge(self, sender: WebhookType, request: Request) -> Outcome:
        headers: Headers = request.headers.raw
        if _announced(request) > self._limits.body_size:
            return Outcome.TOO_LARGE
        proofs, complete = await self._proofs(sender, headers)
        try:
            async with asyncio.timeout(self._limits.body):
                await self._read(request, [proof for _, proof in proofs])
        except TimeoutError:
            return Outcome.SLOW
        except _TooLarge:
            return Outcome.TOO_LARGE
        except ClientDisconnect:
            return Outcome.ABORTED
        sources = {source for source, proof in proofs if proof.holds()}
        if not sources:
            return Outcome.UNSIGNED if complete else Outcome.UNAVAILABLE
        return self._accept(sender, headers, sources)

    def _accept(self, sender: WebhookType, headers: Headers, sources: set[str]) -> Outcome:
        """Nothing in here waits, so that of two copies of a delivery at the same time one is the first."""
        about = event(sender, headers)
        if about in _PINGS:
            return Outcome.PING
        look = self._look_now
        if about and about not in _PUSHES[sender]:
            if self._look_at_pulls is None or about not in _PULLS[sender]:
                return Outcome.IGNORED
            look = self._look_at_pulls
        identity = delivery(sender, headers)
        new = [source for source in sorted(sources) if not self._seen.has(sender, source, identity)]
        for source in new:
            _log.info("a webhook of type %s asks for a look at %s", sender, source)
            look(source)
            self._seen.add(sender, source, identity)
        return Outcome.ACCEPTED if new else Outcome.REPLAYED

    async def _read(self, request: Request, proofs: list[Proof]) -> None:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > self._limits.body_size:
                raise _TooLarge
            for one in proofs:
                one.update(piece)

    async def _proofs(self, sender: WebhookType, headers: Headers) -> tuple[list[tuple[str, Proof]], bool]:
        """A proof for each secret there is, with its source; and whether all secrets are there."""
        found, complete = [], True
        hooks = [hook for hook in self._hooks if hook.sender is sender]
        for source, path in [(hook.source, path) for hook in hooks for path in hook.secret_files]:
            try:
                secret = await self._secrets[path].ask()
                self._redactor.add(secret.decode("utf-8", "surrogateescape"))
                found.append((source, proof(sender, headers, secret, self._clock.now())))
            except (ReconcilerError, ValueError) as error:
                complete = False
                problem = str(error) if isinstance(error, NoSecret) else f"{path}: {error}"
                _log.error("webhooks of type %s for %s are not accepted: %s", sender, source, problem)
        return found, complete and any(hook.secret_files for hook in hooks)


def _announced(request: Request) -> int:
    """The size that the sender says its body has, 0 when it does not say."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0


class Deliveries:
    """The last deliveries that were accepted, at most `capacity`, whatever senders write into their ids."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def has(self, sender: WebhookType, source: str, identity: bytes) -> bool:
        """Whether a delivery was seen; never one that has no id."""
        key = _key(sender, source, identity)
        if key not in self._seen:
            return False
        self._seen.move_to_end(key)
        return True

    def add(self, sender: WebhookType, source: str, identity: bytes) -> None:
        """Remember a delivery that has an id, and forget the one that was not seen for the longest time."""
        if not identity:
            return
        self._seen[_key(sender, source, identity)] = None
        while len(self._seen) > self._capacity:
            self._seen.popitem(last=False)


def _key(sender: WebhookType, source: str, identity: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join((sender.encode(), source.encode(), identity)), digest_size=16).digest()
