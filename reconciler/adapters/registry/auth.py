"""Logging in: the `Authorization` header for a request, from credentials and token servers.

Belongs here: answering challenges, fetching tokens and keeping them while they are good.
Does not belong here: where credentials are stored (`auth_file`), or the request itself.

A token is asked for exactly what a request needs (one repository; `pull` or `pull,push`), whatever scope the
challenge names, so that a registry cannot make us ask for more. The token protocol is described in
distribution's "Token Authentication Specification" and "OAuth2 Token Authentication".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

import httpx

from reconciler.adapters.registry.auth_file import AuthFile, Credential
from reconciler.adapters.registry.challenge import Challenge, Scheme, parse_challenges
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal, Transient, described, is_transient
from reconciler.adapters.registry.retry import retry_after
from reconciler.adapters.registry.wire import Wire, where
from reconciler.ports import Clock

Scopes = tuple[str, ...]

_CLIENT_ID: Final = "machine-os-reconciler"
_LIFETIME: Final = 60.0
"""How long a token is good when the token server does not say: the specification's default."""
_MARGIN: Final = 10.0
"""A token is renewed this long before it expires, so that it lasts for the request it is sent with."""
_ANSWER_LIMIT: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    expires: float


_TokenKey = tuple[str, Scopes, Credential | None]


class Authorizer:
    """Knows how each registry wants us to log in, and does so. Safe to share between threads."""

    def __init__(self, wire: Wire, auth_file: AuthFile, clock: Clock) -> None:
        self._wire = wire
        self._file = auth_file
        self._clock = clock
        self._challenges: dict[str, Challenge] = {}
        self._tokens: dict[_TokenKey, _Token] = {}

    def header(self, place: Place, scopes: Scopes) -> str:
        """What to send without having been asked: '' until the registry has challenged us once.

        Raises Transient and Refusal, for this may fetch a token.
        """
        challenge = self._challenges.get(place.address)
        return "" if challenge is None else self._answer(challenge, place, scopes)

    def renewed(self, place: Place, scopes: Scopes, challenges: Iterable[str]) -> str:
        """The header that answers a 401 with these `WWW-Authenticate` headers, with a new token; '' when
        nothing does.

        Raises Transient and Refusal.
        """
        challenge = parse_challenges(challenges)
        if challenge is None:
            return ""
        self._challenges[place.address] = challenge
        self._tokens.pop((place.address, scopes, self._file.find(place)), None)
        return self._answer(challenge, place, scopes)

    def hint(self, place: Place) -> str:
        """What somebody can do about a denial. Raises Refusal when the auth file is unreadable."""
        return self._file.hint(place)

    def _answer(self, challenge: Challenge, place: Place, scopes: Scopes) -> str:
        credential = self._file.find(place)
        if challenge.scheme is Scheme.BASIC:
            return _basic(place, credential)
        key = (place.address, scopes, credential)
        now = self._clock.now()
        token = self._tokens.get(key)
        if token is None or token.expires <= now:
            token = self._fetched(challenge, place, scopes, credential)
            kept = {k: t for k, t in self._tokens.copy().items() if t.expires > now}
            self._tokens = kept | {key: token}
        return f"Bearer {token.value}"

    def _fetched(
        self, challenge: Challenge, place: Place, scopes: Scopes, credential: Credential | None
    ) -> _Token:
        asked = self._clock.now()
        response = self._asked(challenge, place, scopes, credential)
        try:
            body = self._wire.read(response, _ANSWER_LIMIT)
        finally:
            response.close()
        if response.status_code == 200:
            return _token(response, body, asked)
        secrets = [credential.password, credential.identity_token] if credential else []
        message = f"the token server {where(response.url)} answered {described(response, body, secrets)}"
        if is_transient(response.status_code):
            raise Transient(message, retry_after=retry_after(response.headers.get("retry-after", ""), asked))
        raise Refusal(message, hint=self._file.hint(place))

    def _asked(
        self, challenge: Challenge, place: Place, scopes: Scopes, credential: Credential | None
    ) -> httpx.Response:
        try:
            realm = httpx.URL(challenge.realm)
        except httpx.InvalidURL as error:
            raise Refusal(f"{place.host} names a token server that is not a URL") from error
        service = [("service", challenge.service)] if challenge.service else []
        if credential and credential.identity_token:
            form = [
                ("grant_type", "refresh_token"),
                *service,
                ("client_id", _CLIENT_ID),
                ("scope", " ".join(scopes)),
                ("refresh_token", credential.identity_token),
            ]
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return self._wire.send(place, "POST", realm, headers, urlencode(form).encode())
        query = [*realm.params.multi_items(), *service, *(("scope", scope) for scope in scopes)]
        if credential:
            # Some token servers want the account named beside the credentials; docker always does.
            query.append(("account", credential.username))
        headers = {"Authorization": _basic(place, credential)} if credential else {}
        return self._wire.send(place, "GET", realm.copy_with(params=query), headers)


def _basic(place: Place, credential: Credential | None) -> str:
    if credential is None:
        return ""
    if credential.identity_token:
        raise Refusal(
            f"{place.host} asks for a password, but the auth file has an identity token at {credential.key!r}"
        )
    pair = f"{credential.username}:{credential.password}".encode()
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


def _token(response: httpx.Response, body: bytes, asked: float) -> _Token:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    answer: Mapping[str, object] = document if isinstance(document, dict) else {}
    value = answer.get("token") or answer.get("access_token")
    # Anything else could not be sent as a header.
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise Refusal(f"the token server {where(response.url)} answered without a usable token")
    lifetime = answer.get("expires_in")
    seconds = float(lifetime) if isinstance(lifetime, int) and 0 < lifetime < 10**9 else _LIFETIME
    return _Token(value, asked + max(seconds - _MARGIN, seconds / 2))
