"""Every field that the test nodes honour, in real processes."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler import process
from tests.nodes.world import World, container, pod
from tests.servers.daemon import wait_for

pytestmark = pytest.mark.tools
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def said(world: World, script: str, **fields: Any) -> list[str]:
    """What a script prints in a container with these fields; it has to succeed."""
    spec = fields.pop("spec", {})
    ended = world.run(pod(container(script, **fields), **spec))
    assert ended.phase == "Succeeded", (ended.last, ended.log())
    return ended.log().splitlines()


def test_exit_status_phase_times_and_conditions(world: World) -> None:
    good, bad = (
        world.run(pod(container("exit 0"), name="good")),
        world.run(pod(container("exit 42"), name="bad")),
    )
    assert [report["phase"] for report in good.reports] == ["Pending", "Running", "Succeeded", "Succeeded"]
    assert (good.ended()["exitCode"], good.ended()["reason"]) == (0, "Completed")
    assert bad.phase == "Failed"
    assert (bad.ended()["exitCode"], bad.ended()["reason"]) == (42, "Error")
    assert good.ended()["startedAt"] <= good.ended()["finishedAt"]
    conditions = {c["type"]: (c["status"], c["reason"]) for c in good.last["conditions"]}
    assert conditions["Ready"] == ("False", "PodCompleted")
    assert conditions["Initialized"] == ("True", None)


def test_a_signal_is_told_by_the_exit_status(world: World) -> None:
    ended = world.run(pod(container("sh -c 'kill -9 $$$$'; exit $?")))  # $$$$ is $$ to the shell
    assert ended.ended()["exitCode"] == 137


def test_a_program_that_is_not_there(world: World) -> None:
    ended = world.run(pod(container("", command=["no-such-program"])))
    assert (ended.phase, ended.ended()["exitCode"], ended.ended()["reason"]) == ("Failed", 128, "StartError")
    assert "no-such-program" in ended.ended()["message"]


def test_command_args_working_folder_and_expansion(world: World) -> None:
    env = [{"name": "WHO", "value": "you"}, {"name": "BOTH", "value": "$(WHO) and $(NOBODY) $$(WHO)"}]
    words = ["/bin/sh", "-c", 'pwd; printf "%s\\n" "$@"', "sh"]
    args = ["$(WHO)", "$$", "$(date)", "$(BOTH)"]
    lines = said(world, "", command=words, args=args, env=env, workingDir="/made/for/it")
    assert lines == ["/made/for/it", "you", "$", "$(date)", "you and $(NOBODY) $(WHO)"]


def test_environment(world: World) -> None:
    world.objects["secrets", "push"] = {"data": {"user": base64.b64encode(b"ada").decode()}}
    world.objects["configmaps", "settings"] = {"data": {"arch": "arm64", "mode": "fast"}}
    sources: dict[str, Any] = {
        "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "SPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "UID_": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}},
        "POOL": {"fieldRef": {"fieldPath": "metadata.labels['example.com/pool']"}},
        "INPUT": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/input']"}},
        "USER_": {"secretKeyRef": {"name": "push", "key": "user"}},
        "ARCH": {"configMapKeyRef": {"name": "settings", "key": "arch"}},
        "ABSENT": {"configMapKeyRef": {"name": "none", "key": "arch", "optional": True}},
    }
    env = [{"name": name, "valueFrom": source} for name, source in sources.items()]
    lines = said(world, "env", env=env, envFrom=[{"prefix": "S_", "configMapRef": {"name": "settings"}}])
    found = dict(line.split("=", 1) for line in lines)
    for shell in ("PWD", "SHLVL", "_", "OLDPWD"):
        found.pop(shell, None)
    assert found.pop("PATH")
    assert found == {
        "NAME": "a-pod", "SPACE": "builds", "UID_": "uid-of-a-pod", "POOL": "worker", "INPUT": "sha256:1",
        "USER_": "ada", "ARCH": "arm64", "S_arch": "arm64", "S_mode": "fast", "HOSTNAME": "a-pod", "HOME": "/root",
    }  # fmt: skip


def test_config_maps_and_secrets_as_files(world: World) -> None:
    world.objects["configmaps", "files"] = {
        "data": {"a": "one", "b": "two"},
        "binaryData": {"raw": base64.b64encode(b"\0\xff").decode()},
    }
    world.objects["secrets", "keys"] = {"data": {"token": base64.b64encode(b"s3cret").decode()}}
    volumes = [
        {"name": "all", "configMap": {"name": "files", "defaultMode": 0o644}},
        {
            "name": "some",
            "configMap": {"name": "files", "items": [{"key": "a", "path": "deep/A", "mode": 0o700}]},
        },
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "absent", "secret": {"secretName": "none", "optional": True}},
        {
            "name": "both",
            "projected": {
                "defaultMode": 0o440,
                "sources": [
                    {"secret": {"name": "keys", "items": [{"key": "token", "path": "t"}]}},
                    {"configMap": {"name": "files", "items": [{"key": "b", "path": "b"}]}},
                ],
            },
        },
    ]
    mounts = [{"name": v["name"], "mountPath": f"/v/{v['name']}", "readOnly": True} for v in volumes]
    mounts.append({"name": "all", "mountPath": "/etc/just.b", "subPath": "b"})
    script = (
        "cat /v/all/a /v/some/deep/A /v/keys/token /v/both/t /v/both/b /etc/just.b; echo\n"
        "stat -Lc %a:%u:%g /v/all/a /v/some/deep/A /v/keys/token /v/both/t\n"
        "od -An -tx1 /v/all/raw; ls /v/absent; readlink /v/all/a\n"
        "for f in /v/all/new /v/all/a /v/keys/token /etc/just.b; do ! (echo x >$f) 2>/dev/null || echo $f; done"
    )
    lines = said(world, script, volumeMounts=mounts, spec={"volumes": volumes})
    assert lines == [
        "oneones3crets3crettwotwo", "644:0:0", "700:0:0", "400:0:0", "440:0:0", " 00 ff", "..data/a"
    ]  # fmt: skip


def test_an_empty_folder_is_shared_by_the_containers_of_a_pod(world: World) -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]
    first = container("echo from-init >/work/a", "first", volumeMounts=mounts)
    one = container("cat /work/a; echo from-one >/work/b", "one", volumeMounts=mounts)
    two = container("until [ -s /work/b ]; do sleep 0.05; done; cat /work/b", "two", volumeMounts=mounts)
    volumes = [{"name": "work", "emptyDir": {}}]
    ended = world.run(pod(one, two, volumes=volumes, initContainers=[first]))
    assert ended.phase == "Succeeded"
    assert (ended.log("one"), ended.log("two")) == ("from-init\n", "from-one\n")


def test_an_empty_folder_in_memory_is_full_at_its_limit(world: World) -> None:
    volumes = [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    mounts = [{"name": "m", "mountPath": "/m"}]
    script = "head -c 1000000 /dev/zero >/m/a; ! head -c 1000000 /dev/zero >/m/b; stat -fc %T /m"
    lines = said(world, script, volumeMounts=mounts, spec={"volumes": volumes})
    assert lines[-1] == "tmpfs"
    assert "No space left on device" in lines[0]


def test_an_empty_folder_on_disk_that_grows_too_large_has_its_pod_evicted(world: World) -> None:
    volumes = [{"name": "d", "emptyDir": {"sizeLimit": "1Mi"}}]
    script = "head -c 2000000 /dev/zero >/d/a; sleep 1000"
    ended = world.run(
        pod(container(script, volumeMounts=[{"name": "d", "mountPath": "/d"}]), volumes=volumes)
    )
    assert (ended.phase, ended.last["reason"]) == ("Failed", "Evicted")
    assert ended.last["message"] == 'Usage of EmptyDir volume "d" exceeds the limit "1Mi".'
    assert ended.ended()["exitCode"] == 137


def test_init_containers_run_in_order_and_the_first_failure_is_the_pods(world: World) -> None:
    steps = [container("date +%s.%N", "one"), container("exit 3", "two"), container("date", "three")]
    ended = world.run(pod(container("true"), initContainers=steps))
    assert (ended.phase, ended.last.get("reason")) == ("Failed", None)
    assert ended.ended("one")["exitCode"] == 0
    assert ended.ended("two")["exitCode"] == 3
    assert "waiting" in ended.state("three")
    assert "waiting" in ended.state()


def test_root_has_the_capabilities_of_cri_o_and_a_user_has_none(world: World) -> None:
    lines = said(world, "grep -E 'Cap(Prm|Eff|Bnd|Inh)' /proc/self/status; id")
    assert lines[0].endswith("0000000000000000")
    assert all(line.endswith("00000000000005fb") for line in lines[1:4])
    assert lines[4] == "uid=0(root) gid=0(root) groups=0(root)"


def test_user_groups_and_capabilities(world: World) -> None:
    world.objects["secrets", "keys"] = {"data": {"token": base64.b64encode(b"s3cret").decode()}}
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
    ]
    mounts = [{"name": "work", "mountPath": "/work"}, {"name": "keys", "mountPath": "/keys"}]
    who = {
        "runAsUser": 4321,
        "runAsGroup": 99,
        "runAsNonRoot": True,
        "fsGroup": 7000,
        "supplementalGroups": [50],
    }
    own = {"capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]}}
    script = (
        "id -u; id -g; id -G; cat /keys/token; echo; stat -Lc %a:%u:%g /keys/token; touch /work/a; "
        "stat -c %a:%u:%g /work /work/a; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; pwd; echo $HOME; "
        "echo mine >/dev/stderr; ! touch /etc/x 2>/dev/null"
    )
    lines = said(
        world,
        script,
        volumeMounts=mounts,
        securityContext=own,
        spec={"volumes": volumes, "securityContext": who},
    )
    assert lines == [
        "4321", "99", "99 50 7000", "s3cret", "440:0:7000", "2777:0:7000", "644:4321:7000",
        "CapEff:\t0000000000000000", "CapBnd:\t00000000000000c0", "NoNewPrivs:\t0", "/", "/", "mine",
    ]  # fmt: skip


def test_no_new_privileges_stop_set_user_id_programs(world: World) -> None:
    own = {"runAsUser": 4321, "allowPrivilegeEscalation": False}
    script = "cp /bin/id /tmp/id; /tmp/id -u; grep NoNewPrivs /proc/self/status; ls -l /usr/bin/newuidmap | cut -c4"
    assert said(world, script, securityContext=own) == ["4321", "NoNewPrivs:\t1", "s"]


def test_a_read_only_root_leaves_volumes_writable(world: World) -> None:
    script = (
        "for f in /x /tmp/x /etc/x /usr/x /var/x; do ! touch $f 2>/dev/null || echo $f; done; touch /w/x; "
        "echo ok >/dev/termination-log; echo done >/dev/null; ls /w"
    )
    fields = {
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
        "spec": {"volumes": [{"name": "w", "emptyDir": {}}]},
    }
    assert said(world, script, **fields) == ["x"]


def test_nothing_of_this_machine_is_seen_but_its_programs_nor_changed(world: World, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    marks = [
        Path(folder, f"reconciler-test-{tmp_path.name}") for folder in ("/etc", "/usr", "/usr/bin", "/srv")
    ]
    writes = "; ".join(f"echo x >{mark}; cat {mark}" for mark in marks)
    lines = said(
        world,
        f"ls -A / | tr '\\n' ' '; echo; ! ls {tmp_path} 2>/dev/null; ls /tmp /root /home /run; {writes}; ps -e | wc -l",
    )
    assert not set(lines[0].split()) - {
        "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "mnt", "opt", "proc", "root", "run", "sbin",
        "srv", "sys", "tmp", "usr", "var",
    }  # fmt: skip
    assert lines[-5:] == ["x", "x", "x", "x", "4"]  # last, of ps: a heading, process 1, ps and wc
    assert not [mark for mark in marks if mark.exists()]


PROTECTED = """
import errno, sys
from pathlib import Path
from tests.nodes import linux
linux.unshare(linux.CLONE_NEWNS)
linux.protect()
linux.mount(sys.argv[1], Path(sys.argv[2]), flags=linux.MS_BIND)
for place in sys.argv[1:]:
    try:
        Path(place, "written").touch()
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def test_even_a_mistake_cannot_write_to_this_machine(tmp_path: Path) -> None:
    """Neither in its own place, nor where a bind mount shows it in place of an overlay."""
    real, shown = tmp_path / "real", tmp_path / "shown"
    real.mkdir()
    shown.mkdir()
    argv = [sys.executable, "-c", PROTECTED, str(real), str(shown)]
    done = process.run(argv, env={**os.environ, "PYTHONPATH": str(PROJECT)}, cwd=PROJECT, timeout=60)
    assert (done.stdout.split(), done.stderr) == ([b"EROFS", b"EROFS"], b"")
    assert not list(tmp_path.rglob("written"))


def test_termination_message_from_its_file(world: World) -> None:
    plain = world.run(pod(container("printf sha256:1 >/dev/termination-log"), name="plain"))
    assert plain.ended()["message"] == "sha256:1"
    other = container("echo elsewhere >/made/up; exit 1", terminationMessagePath="/made/up")
    assert world.run(pod(other, name="other")).ended()["message"] == "elsewhere\n"
    script = "head -c 5000 /dev/zero | tr '\\0' a >/dev/termination-log; printf end >>/dev/termination-log"
    long = world.run(pod(container(script), name="long")).ended()["message"]
    assert (len(long), long[-4:]) == (4096, "aend")


def test_termination_message_from_the_log_only_after_a_failure(world: World) -> None:
    fields = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    bad = world.run(pod(container("seq 1 100; exit 1", **fields), name="bad"))
    assert bad.ended()["message"] == "".join(f"{n}\n" for n in range(21, 101))
    wide = world.run(pod(container("seq 1000 2000; exit 1", **fields), name="wide"))
    assert len(wide.ended()["message"]) <= 2048
    assert wide.ended()["message"].endswith("2000\n")
    own = world.run(pod(container("echo out; echo why >/dev/termination-log; exit 1", **fields), name="own"))
    assert own.ended()["message"] == "why\n"
    good = world.run(pod(container("echo out", **fields), name="good"))
    assert "message" not in good.ended()
    silent = world.run(pod(container("echo out; exit 1"), name="silent"))
    assert "message" not in silent.ended()


def test_a_deadline_ends_the_pod(world: World) -> None:
    ended = world.run(pod(container("sleep 1000"), activeDeadlineSeconds=1, terminationGracePeriodSeconds=0))
    assert (ended.phase, ended.last["reason"]) == ("Failed", "DeadlineExceeded")
    assert ended.ended()["exitCode"] == 137


def test_a_stop_asks_first(world: World) -> None:
    run = world.start(pod(container("trap 'echo asked; exit 9' TERM; echo up; sleep 1000 & wait")))
    wait_for("the container", lambda: run.log("main").exists() and "up" in run.log("main").read_text())
    run.stop()
    run.wait(20)
    ended = world.outcome(run)
    assert ended.log() == "up\nasked\n"
    assert (ended.phase, ended.ended()["exitCode"]) == ("Failed", 9)


def test_as_process_1_a_program_without_a_handler_is_not_ended_by_asking(world: World) -> None:
    run = world.start(pod(container("echo up; exec sleep 1000")))
    wait_for("the container", lambda: run.log("main").exists() and "up" in run.log("main").read_text())
    run.stop(1)
    run.wait(20)
    assert world.outcome(run).ended()["exitCode"] == 137


def test_an_eviction_is_a_failure_marked_as_a_disruption(world: World) -> None:
    run = world.start(pod(container("echo up; sleep 1000")))
    wait_for("the container", lambda: run.log("main").exists() and "up" in run.log("main").read_text())
    run.stop(0, "Evicted", "no memory", disrupted="TerminationByKubelet")
    run.wait(20)
    ended = world.outcome(run)
    assert (ended.phase, ended.last["reason"]) == ("Failed", "Evicted")
    condition = next(c for c in ended.last["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "TerminationByKubelet")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"image": "registry.example.com/other:1"}, "ErrImagePull"),
        ({"securityContext": {"runAsNonRoot": True}}, "CreateContainerConfigError"),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "late", "key": "a"}}}]},
            "CreateContainerConfigError",
        ),
        ({"command": []}, "CreateContainerError"),
    ],
)
def test_what_cannot_start_waits_and_says_why(world: World, fields: dict[str, Any], reason: str) -> None:
    run = world.start(pod(container("", **fields)))

    def why() -> str:
        waiting = world.outcome(run).state().get("waiting", {}) if world.reports else {}
        text: str = waiting.get("reason", "")
        return text

    wait_for("a reason", lambda: why() == reason)
    assert world.outcome(run).phase == "Pending"
    run.stop()
    run.wait(20)
    assert world.outcome(run).phase == "Failed"


def test_a_volume_waits_for_its_secret(world: World) -> None:
    volumes = [{"name": "late", "secret": {"secretName": "late"}}]
    run = world.start(
        pod(container("cat /late/a", volumeMounts=[{"name": "late", "mountPath": "/late"}]), volumes=volumes)
    )
    wait_for("a reason", lambda: any("not found" in str(body) for _, body in world.reports))
    world.objects["secrets", "late"] = {"data": {"a": base64.b64encode(b"here").decode()}}
    run.wait(20)
    assert world.outcome(run).log() == "here"


def test_what_is_not_honoured_fails_the_pod(world: World) -> None:
    ended = world.run(pod(container("true", livenessProbe={"exec": {"command": ["true"]}})))
    assert (ended.phase, ended.last["reason"]) == ("Failed", "Unsupported")
    assert "spec.containers[0].livenessProbe" in ended.last["message"]
    assert "waiting" in ended.state()
