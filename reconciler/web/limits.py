"""How much anybody on the network may ask of this process.

Belongs here: sizes, counts and times. Does not belong here: holding anybody to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds, sizes in bytes.

    `head`: until a request's headers are all there; `body`: until a delivery's body is; `request`: from the headers to
    the last byte of the answer; `keep_alive`: between two requests on one connection; `closing`: for the peer to take
    what is left of an answer; `answer`: for whatever is asked of the daemon or of a disk. `connections` may be open at
    once. `rest_size`: of a body that was refused, which is read and dropped so that its sender gets to see why; forges
    send up to 25 MB.
    """

    head: float = 10.0
    body: float = 10.0
    request: float = 30.0
    keep_alive: int = 5
    closing: float = 5.0
    answer: float = 5.0
    connections: int = 128
    head_size: int = 32 * 1024
    body_size: int = 1024 * 1024
    rest_size: int = 32 * 1024 * 1024


LIMITS: Final = Limits()
"""Those that hold unless a test says otherwise."""
