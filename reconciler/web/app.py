"""The pages that the web server has, and what all of their answers share.

Belongs here: paths, status codes, headers. Does not belong here: sockets (`server`), judging webhooks (`webhook`), and
knowing how the daemon is: it is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.redaction import Redactor
from reconciler.web.limits import LIMITS, Limits
from reconciler.web.metrics import CONTENT_TYPE, Metrics
from reconciler.web.question import NoAnswer, Question
from reconciler.web.webhook import Hooks

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Health(Protocol):
    """Says how the daemon is, from what it remembers: '' when all is well, else what is not, in one sentence. Is asked
    on threads of the web server's; not answering counts as being unwell."""

    def live(self) -> str:
        """Why this process should be started anew, or ''."""

    def ready(self) -> str:
        """Why it cannot do its work now, or ''."""


def application(
    health: Health,
    metrics: Metrics,
    status: Callable[[], Mapping[str, object]],
    hooks: Hooks,
    redactor: Redactor,
    limits: Limits = LIMITS,
) -> ASGIApp:
    """The pages. `status` returns what `/status` shows as JSON; as `health`, it is asked on other threads."""
    pages = _Pages(health, metrics, status, redactor, limits)
    routes = [
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/metrics", pages.metrics),
        Route("/status", pages.status),
    ]
    routes += [
        Route(f"/hook/{sender}", partial(hooks.receive, sender), methods=["POST"]) for sender in hooks.senders
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # a redirect would repeat the Host header that somebody sent
    return _Headers(app)


class _Pages:
    """Each question has a thread of its own, so that one that hangs does not silence the others."""

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        status: Callable[[], Mapping[str, object]],
        redactor: Redactor,
        limits: Limits,
    ) -> None:
        self._status = status
        self._redactor = redactor
        self._live = Question(health.live, limits.answer)
        self._ready = Question(health.ready, limits.answer)
        self._measured = Question(metrics.text, limits.answer)
        self._shown = Question(self._status_text, limits.answer)

    async def healthz(self, _: Request) -> Response:
        return await self._verdict(self._live)

    async def readyz(self, _: Request) -> Response:
        return await self._verdict(self._ready)

    async def metrics(self, _: Request) -> Response:
        try:
            return Response(await self._measured.ask(), headers={"Content-Type": CONTENT_TYPE})
        except NoAnswer as error:
            return _unavailable(error.message)

    async def status(self, _: Request) -> Response:
        try:
            return Response(await self._shown.ask(), media_type="application/json")
        except NoAnswer as error:
            return _unavailable(error.message)

    def _status_text(self) -> str:
        return json.dumps(self._clean(self._status()), indent=2, sort_keys=True) + "\n"

    def _clean(self, value: object) -> object:
        """Each text by itself: masking the finished JSON could break it."""
        match value:
            case str():
                return self._redactor.clean(value)
            case Mapping():
                return {self._redactor.clean(str(key)): self._clean(item) for key, item in value.items()}
            case list() | tuple():
                return [self._clean(item) for item in value]
        return value

    async def _verdict(self, question: Question[str]) -> Response:
        try:
            problem = await question.ask()
        except NoAnswer as error:
            problem = error.message
        return _unavailable(self._redactor.clean(problem)) if problem else PlainTextResponse("ok")


def _unavailable(problem: str) -> Response:
    return PlainTextResponse(problem, 503)


class _Headers:
    """Adds the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)
