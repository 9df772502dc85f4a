"""`python -m tests.controlplane build | up`: make the programs now, or start a control plane to look around in.

Belongs here: what a person types and reads. Does not belong here: how it is done.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from reconciler.core.model import Arch
from tests.controlplane import ControlPlane, Unavailable, programs


def main() -> int:
    """Run the command; returns its exit status: 1 when there is no control plane to be had."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane", description="The tests' control plane."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="find or build the programs, so that tests need not")
    commands.add_parser("up", help="start one, with a node of each architecture, until Ctrl-C")
    command = parser.parse_args().command
    try:
        found = programs.find(_tell)
    except Unavailable as error:
        _tell(str(error))
        return 1
    return _up(found) if command == "up" else 0


def _up(found: programs.Programs) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell starts what is in the background deaf to SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="controlplane-") as folder,
            ControlPlane(Path(folder), found) as plane,
        ):
            for arch in Arch:
                plane.add_node(f"node-{arch}", arch)
            plane.install_ours()
            try:
                plane.install_upstream()
            except Unavailable as error:
                _tell(str(error))
            print(f"export KUBECONFIG={plane.kubeconfig()}", flush=True)
            _tell(f"logs are in {folder}; Ctrl-C ends it")
            while True:
                time.sleep(1)  # not `pause`, which misses a signal that comes just before it
    except KeyboardInterrupt:
        pass
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
