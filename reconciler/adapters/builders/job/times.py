"""Kubernetes' times, and ours: seconds since the epoch.

Belongs here: spelling one as the other. Does not belong here: what happened then.
"""

from __future__ import annotations

from datetime import UTC, datetime


def epoch(text: object) -> float:
    """Kubernetes' time in seconds since the epoch, 0 for none."""
    if not isinstance(text, str):
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def timestamp(seconds: float) -> str:
    """The reverse of `epoch`, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
