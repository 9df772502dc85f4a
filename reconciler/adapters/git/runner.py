"""Running the programs that judge signatures: gpg and ssh-keygen.

Belongs here: the environment and the time that they get. Does not belong here: what they are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler import process
from reconciler.errors import ToolMissing
from reconciler.process import Finished


@dataclass(frozen=True, slots=True)
class Runner:
    """`env` says where programs are (PATH); `timeout` is in seconds, for each run."""

    env: Mapping[str, str] = field(repr=False)
    timeout: float

    def run(self, *argv: str, home: Path, hint: str, stdin: bytes = b"") -> Finished:
        """Run a program that finds nothing of this account: `home` is all it has. Raises Timeout, and ToolMissing with
        `hint`."""
        env = {**self.env, "HOME": str(home), "GNUPGHOME": str(home), "LC_ALL": "C"}
        try:
            return process.run(argv, env=env, timeout=self.timeout, cwd=home, stdin=stdin)
        except ToolMissing as error:
            raise ToolMissing(error.message, hint=hint) from error
