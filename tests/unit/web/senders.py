"""Deliveries as each sender makes them, written from the senders' own descriptions and not from our code."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Protocol

from reconciler.settings import WebhookType

NOW = 1_700_000_000
BODY = b'{"ref": "refs/heads/main"}'


class Sign(Protocol):
    """The headers of a push with this body and id, signed with this secret."""

    def __call__(self, secret: str, body: bytes, identity: str) -> dict[str, str]: ...


def hexdigest(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(secret: str, body: bytes, identity: str) -> dict[str, str]:
    return {
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": identity,
        "X-Hub-Signature-256": f"sha256={hexdigest(secret, body)}",
    }


def gitea(secret: str, body: bytes, identity: str) -> dict[str, str]:
    return {
        "X-Gitea-Event": "push",
        "X-Gitea-Delivery": identity,
        "X-Gitea-Signature": hexdigest(secret, body),
    }


def forgejo(secret: str, body: bytes, identity: str) -> dict[str, str]:
    return {
        "X-Forgejo-Event": "push",
        "X-Forgejo-Delivery": identity,
        "X-Forgejo-Signature": hexdigest(secret, body),
    }


def gitlab_token(secret: str, body: bytes, identity: str) -> dict[str, str]:  # noqa: ARG001  (nothing is signed)
    return {"X-Gitlab-Event": "Push Hook", "Idempotency-Key": identity, "X-Gitlab-Token": secret}


def gitlab_signed(secret: str, body: bytes, identity: str, at: int = NOW) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.new(key, f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": identity,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def generic(secret: str, body: bytes, identity: str) -> dict[str, str]:
    return {"Idempotency-Key": identity, "X-Signature": f"sha256={hexdigest(secret, body)}"}


@dataclass(frozen=True)
class Sender:
    """One way of signing; `proof` is the header that nothing works without."""

    name: str
    type: WebhookType
    sign: Sign
    proof: str
    secret: str = "s3cret-of-the-sender"
    other: str = "another-secret-0815"

    def __str__(self) -> str:
        return self.name


def _token(text: bytes) -> str:
    return "whsec_" + base64.b64encode(text.ljust(32, b".")).decode()


SENDERS = (
    Sender("github", WebhookType.GITHUB, github, "X-Hub-Signature-256"),
    Sender("gitea", WebhookType.GITEA, gitea, "X-Gitea-Signature"),
    Sender("forgejo", WebhookType.GITEA, forgejo, "X-Forgejo-Signature"),
    Sender("gitlab-token", WebhookType.GITLAB, gitlab_token, "X-Gitlab-Token"),
    Sender(
        "gitlab-signed",
        WebhookType.GITLAB,
        gitlab_signed,
        "webhook-signature",
        _token(b"one key"),
        _token(b"another key"),
    ),
    Sender("generic", WebhookType.GENERIC, generic, "X-Signature"),
)
