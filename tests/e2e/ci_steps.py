"""The shell steps of CI files, run as the CI systems run them: their texts, their variables, bash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from reconciler import process

ROOT: Final = Path(__file__).parents[2]
_EXPRESSION: Final = re.compile(r"\$\{\{ *(.*?) *\}\}")


@dataclass
class CompositeAction:
    """A composite action on a runner: `runner` is its RUNNER_TEMP, `values` are what expressions stand for, `source` is
    where the action's own repository was put."""

    source: Path
    folder: str
    runner: Path
    environment: Mapping[str, str]
    values: dict[str, str] = field(default_factory=dict)
    said: str = ""
    status: int = 0

    @property
    def text(self) -> Any:
        """The action's file."""
        return yaml.safe_load((self.source / self.folder / "action.yml").read_text())

    def run(self, **inputs: str) -> int:
        """Run its steps but the installation, until one fails; returns the status of the last."""
        known = {name: str(given.get("default", "")) for name, given in self.text["inputs"].items()}
        assert set(inputs) <= set(known)
        self.values |= {f"inputs.{name}": inputs.get(name, default) for name, default in known.items()}
        self.said, self.status = "", 0
        for step in self.text["runs"]["steps"]:
            if step["name"] != "Install" and self._is_wanted(step):
                self.status = self._run(step)
            if self.status:
                break
        return self.status

    def install(self) -> None:
        """The first step."""
        step = self.text["runs"]["steps"][0]
        assert step["name"] == "Install"
        assert self._run(step) == 0, self.said

    def _is_wanted(self, step: Mapping[str, Any]) -> bool:
        return "if" not in step or bool(self.values.get(step["if"]))

    def _run(self, step: Mapping[str, Any]) -> int:
        assert step["shell"] == "bash"
        self.runner.mkdir(exist_ok=True)
        output, summary = self.runner / "output", self.runner / "summary"
        output.write_text("")
        done = process.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={
                **self.environment,
                **{name: self._value(text) for name, text in step.get("env", {}).items()},
                "RUNNER_TEMP": str(self.runner),
                "GITHUB_ACTION_PATH": str(self.source / self.folder),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            timeout=240,
        )
        self.said += (done.stdout + done.stderr).decode()
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return done.status

    def _value(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self._value(self.values[match[1]]), str(text))
