"""What somebody needs to speak to an API server, wherever it comes from.

Belongs here: the value. Does not belong here: reading it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Login:
    """`configuration` is the kubernetes package's own, filled in. `namespace` is '' when nothing names one. When one of
    `files` changes, or after `expires` (epoch seconds), it is worth reading everything again."""

    configuration: Any
    namespace: str = ""
    files: tuple[Path, ...] = ()
    expires: float = math.inf
