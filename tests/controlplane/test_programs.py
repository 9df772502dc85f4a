"""Where the programs come from, tried with programs that say who they are, and a Go that says what it does."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from threading import Thread

import pytest

from reconciler import process
from tests.controlplane import Unavailable, programs
from tests.controlplane.programs import KUBECTL, SERVERS
from tests.servers.daemon import wait_for

PROJECT = Path(__file__).parents[2]
# What it compiles is a file with the version that it was told to stamp.
_GO = """\
#!/bin/sh
case "$1" in
version) echo 'go version go1.{minor}.0 linux/amd64'; exit ;;
list) echo 'go: downloading k8s.io/api v0.36.3' >&2; printf 'one\\ntwo\\n'; exit ;;
esac
echo "$$" >>'{root}/builds'
{trouble}
echo k8s.io/api/core/v1 >&2
stamp=
for word; do
  case "$word" in
  -ldflags=*) stamp=${{word##*gitVersion=}} ;;
  */) into=$word; mkdir -p "$into" ;;
  k8s.io/*) printf '%s' "${{stamp%% *}}" >"$into${{word##*/}}" ;;
  esac
done
"""


def put(folder: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def put_servers(folder: Path, *versions: str) -> None:
    for name, version in zip(SERVERS, versions, strict=True):
        put(folder, name, f"#!/bin/sh\necho Kubernetes {version}\n")


class Machine:
    """A machine that has etcd and nothing else on its PATH, until more is put there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "path"
        self.assets = root / "assets"
        self.said: list[str] = []
        self.env = {"PATH": str(self.path), "XDG_CACHE_HOME": str(root / "cache")}
        put(self.path, "etcd")
        for tool in ("sh", "mkdir", "sleep"):
            (self.path / tool).symlink_to(f"/bin/{tool}")

    def put_go(self, minor: int = 26, trouble: str = "") -> None:
        steps = {"": "", "refused": "echo 'dial tcp: no route to host' >&2; exit 1", "slow": "sleep 1000"}
        put(self.path, "go", _GO.format(root=self.root, minor=minor, trouble=steps[trouble]))

    @property
    def builds(self) -> int:
        log = self.root / "builds"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def find(self) -> programs.Programs:
        return programs.find(self.said.append, self.env)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_on_the_path_is_used(machine: Machine) -> None:
    put_servers(machine.path, "v1.36.1", "v1.36.1", "v1.36.1")
    put(machine.path, KUBECTL)
    found = machine.find()
    assert found == programs.Programs(*(machine.path / name for name in ("etcd", *SERVERS, KUBECTL)))


def test_the_named_folder_comes_first_program_by_program(machine: Machine) -> None:
    put_servers(machine.path, "v1.36.1", "v1.36.1", "v1.36.1")
    put(machine.path, KUBECTL)
    put(machine.assets, KUBECTL)
    put(machine.assets, "kube-apiserver")  # as envtest has it: no controllers, no scheduler
    machine.env["KUBEBUILDER_ASSETS"] = str(machine.assets)
    found = machine.find()
    assert (found.kubectl.parent, found.apiserver.parent) == (machine.assets, machine.path)
    put_servers(machine.assets, "v1.35.0", "v1.35.0", "v1.35.0")
    assert machine.find().apiserver.parent == machine.assets


@pytest.mark.parametrize("versions", [("v1.36.1", "v1.36.1", "v1.35.0"), ("v1.30.0", "v1.30.0", "v1.30.0")])
def test_servers_that_do_not_fit_are_named_and_left(machine: Machine, versions: tuple[str, ...]) -> None:
    put_servers(machine.path, *versions)
    put(machine.path, KUBECTL)
    machine.put_go()
    assert machine.find().apiserver.parent == programs.cache(machine.env)
    assert f"not using the servers in {machine.path}" in machine.said[0]
    assert versions[2].removeprefix("v")[:4] in machine.said[0]


def test_what_is_missing_is_built_once_with_its_version(machine: Machine) -> None:
    machine.put_go()
    put(machine.path, KUBECTL)
    found = machine.find()
    assert machine.find() == found
    assert machine.builds == 1
    assert found.scheduler.read_text() == programs.version()
    assert not (found.scheduler.parent / KUBECTL).exists()
    assert machine.said[0].startswith(f"building Kubernetes {programs.version()}, once: kube-apiserver")


def test_kubectl_is_built_where_there_is_none(machine: Machine) -> None:
    put_servers(machine.path, "v1.36.1", "v1.36.1", "v1.36.1")
    machine.put_go()
    found = machine.find()
    assert found.kubectl == programs.cache(machine.env) / KUBECTL
    assert found.apiserver.parent == machine.path


def test_two_at_once_build_once(machine: Machine) -> None:
    machine.put_go()
    threads = [Thread(target=machine.find) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert machine.builds == 1


def test_what_a_killed_build_left_is_not_used(machine: Machine) -> None:
    machine.put_go(trouble="slow")
    argv = [sys.executable, "-c", "from tests.controlplane import programs; programs.find()"]
    running = process.start(argv, env=machine.env, cwd=PROJECT)
    wait_for("the build", lambda: machine.builds)
    (pid,) = map(int, (machine.root / "builds").read_text().split())
    os.kill(running.pid, signal.SIGKILL)
    process.kill(running)
    wait_for("Go's end", lambda: not Path(f"/proc/{pid}").exists())
    left = programs.cache(machine.env) / "unfinished-1"
    left.mkdir()
    put(left, "kube-apiserver")
    machine.put_go()
    assert machine.find().apiserver.read_text() == programs.version()
    assert not left.exists()


def test_without_etcd_it_says_so(machine: Machine) -> None:
    (machine.path / "etcd").unlink()
    with pytest.raises(Unavailable, match=r"there is no etcd.*apt-get install etcd-server"):
        machine.find()


def test_without_go_it_says_so(machine: Machine) -> None:
    with pytest.raises(
        Unavailable, match=r"no kube-apiserver, .* there is no Go here: install Go 1\.21 or newer"
    ):
        machine.find()


def test_an_old_go_is_named(machine: Machine) -> None:
    machine.put_go(minor=19)
    with pytest.raises(Unavailable, match=rf"{machine.path}/go is 1\.19, and only from 1\.21 on"):
        machine.find()
    assert machine.builds == 0


def test_what_go_complains_of_is_the_reason(machine: Machine) -> None:
    machine.put_go(trouble="refused")
    with pytest.raises(Unavailable, match=r"could not be built.*no route to host"):
        machine.find()
    machine.put_go()
    assert machine.find().scheduler.exists()


def test_a_build_that_hangs_is_ended(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "BUILD_SECONDS", 2.0)
    machine.put_go(trouble="slow")
    with pytest.raises(Unavailable, match=r"could not be built.*ended after"):
        machine.find()


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.put_go()
    (machine.root / "cache").write_text("a file, not a folder")
    with pytest.raises(Unavailable, match=rf"{machine.root}/cache.*XDG_CACHE_HOME"):
        machine.find()


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_tests_say_why_they_did_not_run(machine: Machine, ci: str, outcome: str) -> None:
    one = "tests/controlplane/test_plane.py::test_it_says_which_version_it_is"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", one]
    done = process.run(argv, env={"PATH": str(machine.path), "CI": ci}, cwd=PROJECT, timeout=120)
    said = done.stdout.decode()
    assert outcome in said
    assert "there is no Go here" in said.replace("\n", " ")
    assert done.status == (1 if ci else 0)


@pytest.mark.parametrize("program", ["etcd", "go"])
def test_the_command_says_what_is_missing(machine: Machine, program: str) -> None:
    if program == "etcd":
        (machine.path / "etcd").unlink()
    argv = [sys.executable, "-m", "tests.controlplane", "build"]
    done = process.run(argv, env=machine.env, cwd=PROJECT, timeout=60)
    assert (done.status, done.stdout) == (1, b"")
    assert f"there is no {'Go' if program == 'go' else 'etcd'}" in done.stderr.decode()
