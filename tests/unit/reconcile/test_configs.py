"""`FROM configs` in plans: every change to a MachineConfig that matters is seen, wherever it is, and no other."""

from __future__ import annotations

import pytest

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.engine import Engine
from reconciler.core.inputs import canonical_json, digest_of
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan
from reconciler.errors import ClusterError, InvalidInput
from reconciler.ports.cluster import ReleaseImages
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects, Files
from tests.unit.definitions import config, mosc
from tests.unit.reconcile.bench import Bench, actions
from tests.unit.reconcile.test_cluster import Site

BASE = "baseImage: quay.io/os/base:1\n"
GROUP = "machineconfiguration.openshift.io"
CONFIGS = "FROM configs AS final\nRUN true\n"
FIRST = f"{1:040x}"


def machine_config(
    name: str = "50-a",
    role: str = "worker",
    contents: str = "data:,1",
    *,
    path: str = "/etc/x",
    labels: str = "",
    spec: str = "",
) -> str:
    """A MachineConfig with one file."""
    return f"""\
apiVersion: {GROUP}/v1
kind: MachineConfig
metadata:
  name: {name}
  labels: {{{GROUP}/role: {role}{labels}}}
spec:
{spec}  config:
    ignition: {{version: 3.4.0}}
    storage:
      files:
      - path: {path}
        contents: {{source: '{contents}'}}
"""


def pool_document(name: str, roles: str) -> str:
    """A MachineConfigPool."""
    return f"""\
apiVersion: {GROUP}/v1
kind: MachineConfigPool
metadata: {{name: {name}}}
spec:
  machineConfigSelector:
    matchExpressions: [{{key: {GROUP}/role, operator: In, values: [{roles}]}}]
"""


PLAIN = "FROM quay.io/os/base:1\nRUN true\n"
START: dict[str, bytes | str] = {
    "reconciler.yaml": config(rest=BASE),
    "p/worker/os.yaml": mosc("worker"),
    "p/worker/Containerfile": CONFIGS,
    "p/infra/os.yaml": mosc("infra", inline=CONFIGS),
    "p/plain/os.yaml": mosc("plain"),
    "p/plain/Containerfile": PLAIN,
    "machines/a.yaml": machine_config(),
}


def plan(before: Files, after: Files, scope: Scope | None = None) -> Plan:
    """What a change causes, from nothing."""
    return Preview(History(FakeObjects([before, after])), scope or Scope()).plan(f"{2:040x}", FIRST)


def cells(made: Plan) -> dict[str, Cell]:
    """By pool and architecture."""
    return {f"{pool.name}/{cell.arch}": cell for pool in made.pools for cell in pool.cells}


def built(before: Files, after: Files) -> list[str]:
    """The images that a change builds; the others are reused."""
    found = cells(plan(before, after))
    assert {cell.action for cell in found.values()} <= {Action.BUILD, Action.REUSE}, found
    return [name for name, cell in found.items() if cell.action is Action.BUILD]


def without(path: str) -> dict[str, bytes | str]:
    """The start without a file."""
    return {name: text for name, text in START.items() if name != path}


@pytest.mark.parametrize(
    ("edit", "images"),
    [
        ({"machines/a.yaml": machine_config(contents="data:,2")}, ["infra", "worker"]),
        ({"machines/a.yaml": machine_config(role="infra")}, ["worker"]),
        ({"machines/a.yaml": machine_config(role="master")}, ["infra", "worker"]),
        ({"machines/a.yaml": machine_config(contents="data:;base64,MQ==")}, []),
        ({"machines/a.yaml": machine_config(name="51-renamed")}, []),
        ({"machines/b.yml": machine_config("60-b", path="/etc/y")}, ["infra", "worker"]),
        ({"machines/b.yml": machine_config("40-b", contents="data:,9")}, []),
        ({"machines/b.yml": machine_config("40-b", "infra", contents="data:,9")}, ["infra"]),
        ({"p/plain/b.yml": machine_config("60-b", path="/etc/y")}, ["infra", "worker"]),
        ({"machines/pool.yaml": pool_document("infra", "infra")}, ["infra"]),
        ({"machines/pool.yaml": pool_document("infra", "worker, infra")}, []),
        ({"status/x.yaml": machine_config("60-b", path="/etc/y")}, []),
        (
            {
                "machines/b.yaml": machine_config(
                    "60-b", path="/etc/y", labels=", reconciler.machineos.dev/output: x"
                )
            },
            [],
        ),
        ({"reconciler.yaml": config(rest="baseImage: quay.io/os/base:2\n")}, ["infra", "worker"]),
        ({"reconciler.yaml": config(rest=BASE + "exclude: [machines/**]\n")}, ["infra", "worker"]),
        (
            {"machines/a.yaml": machine_config(spec="  osImageURL: quay.io/os/base:1\n")},
            [],
        ),
        (
            {"machines/a.yaml": machine_config(spec="  osImageURL: quay.io/os/other:1\n")},
            ["infra", "worker"],
        ),
    ],
)
def test_what_an_edit_builds(edit: Files, images: list[str]) -> None:
    wanted = [f"{pool}/{arch}" for pool in images for arch in ("amd64", "arm64")]
    assert built(START, {**START, **edit}) == wanted
    assert built({**START, **edit}, START) == wanted


def test_a_removed_one_and_one_for_an_architecture() -> None:
    assert built(START, without("machines/a.yaml")) == [
        "infra/amd64",
        "infra/arm64",
        "worker/amd64",
        "worker/arm64",
    ]
    arm = machine_config("60-b", path="/etc/y", labels=", reconciler.machineos.dev/arch: arm64")
    assert built(START, START | {"b.yaml": arm}) == ["infra/arm64", "worker/arm64"]


def test_the_policy_upstream_sees_only_what_upstream_rebuilds_for() -> None:
    upstream = START | {"reconciler.yaml": config(rest=BASE + "machineConfig: upstream\n")}
    other = {"machines/a.yaml": machine_config(contents="data:,2")}
    assert built(upstream, upstream | other) == []
    (reason,) = cells(plan(upstream, upstream | other))["worker/amd64"].reasons
    assert (reason.ingredient, reason.change, reason.path) == (
        "machineConfig",
        "unchanged",
        "machines/a.yaml",
    )
    for spec in ("  kernelArguments: [quiet]\n", "  extensions: [usbguard]\n", "  kernelType: realtime\n"):
        changed = built(upstream, upstream | {"machines/a.yaml": machine_config(spec=spec)})
        assert "worker/amd64" in changed


@pytest.mark.parametrize(
    ("edit", "message", "line"),
    [
        (machine_config(contents="data:,2"), "/etc/x changed", 11),
        (machine_config(path="/etc/y"), "/etc/x removed", 11),
        (machine_config(spec="  kernelArguments: [quiet]\n"), "kernelArguments added", 7),
        (machine_config(spec="  osImageURL: quay.io/os/base:2\n"), "osImageURL changed", 7),
    ],
)
def test_reasons_name_what_changed_and_where(edit: str, message: str, line: int) -> None:
    found = cells(plan(START, START | {"machines/a.yaml": edit}))["worker/amd64"].reasons
    assert (found[0].ingredient, found[0].message) == ("machineConfig", message)
    assert (found[0].path, found[0].line) == ("machines/a.yaml", line)


BROKEN = machine_config().replace("storage:", "storage2:")


@pytest.mark.parametrize(
    ("edit", "blocked"),
    [
        (BROKEN, ["infra", "worker"]),
        (BROKEN.replace("role: worker", "role: infra"), ["infra"]),
        (BROKEN.replace("role: worker", "role: master"), []),
        (BROKEN.replace("role: worker", "role: 1"), ["infra", "worker"]),
        (BROKEN.replace("labels:", "label:"), ["infra", "worker"]),
        (BROKEN + "        <<: *x\n", ["infra", "worker"]),
        ("kind: MachineConfig\na: [", ["infra", "worker"]),
        ("a: [", []),
        (pool_document("infra", "[]"), ["infra"]),
        (pool_document("infra", "[]").replace("name: infra", "title: infra"), ["infra", "worker"]),
        (machine_config("50-a", "infra"), ["infra"]),
        (BROKEN.replace("role: worker", "role: worker, reconciler.machineos.dev/output: x"), []),
        (machine_config().replace("/v1\n", "/v2\n", 1), ["infra", "worker"]),
    ],
)
def test_one_that_cannot_be_read_blocks_the_pools_that_it_could_belong_to(
    edit: str, blocked: list[str]
) -> None:
    made = plan(START, START | {"some/where.yaml": edit})
    found = sorted({pool.name for pool in made.pools for c in pool.cells if c.action is Action.BLOCKED})
    assert found == blocked
    if blocked:
        assert {fault.path for fault in made.errors} >= {"some/where.yaml"}
        reasons = [r for pool in made.pools for cell in pool.cells for r in cell.reasons]
        assert any(r.path == "some/where.yaml" and r.line for r in reasons)


def test_pools_that_do_not_use_configs_have_the_digests_that_they_had() -> None:
    history = History(FakeObjects([START]))
    pools = history.catalogue(FIRST).by_name
    plain, used = (history.inputs(pools[name], Arch.AMD64, "") for name in ("plain", "worker"))
    for inputs, same in ((plain, True), (used, False)):
        document = {"architecture": "amd64", "content": inputs.analysis.content, "refresh": ""}
        assert (inputs.definition == digest_of(canonical_json(document))) is same


def test_what_no_image_can_carry_is_a_warning_of_the_pools_that_would_take_it() -> None:
    made = plan(START, START | {"machines/a.yaml": machine_config(path="/var/lib/x")})
    warned = {pool.name: [(w.path, w.line) for w in pool.warnings] for pool in made.pools}
    place = [("machines/a.yaml", 11)]
    assert warned == {"infra": place, "plain": [], "worker": place}
    assert all("/var" in w.message for pool in made.pools for w in pool.warnings)


def test_a_stage_that_runs_programs_asks_for_a_machine_that_can() -> None:
    folder = machine_config().replace("      files:", "      directories:").split("        contents:")[0]
    text = {"p/worker/Containerfile": "FROM configs\n"}
    for edit, runs in ((machine_config(), False), (folder + "        mode: 0700\n", True)):
        history = History(FakeObjects([START | text | {"machines/a.yaml": edit}]))
        pool = history.catalogue(FIRST).by_name["worker"]
        assert history.inputs(pool, Arch.ARM64, "").needs.runs is runs


NO_BASE = START | {"reconciler.yaml": config()}


def test_a_base_has_to_be_named_by_somebody() -> None:
    made = plan(NO_BASE, NO_BASE)
    (reason,) = cells(made)["worker/amd64"].reasons
    assert cells(made)["worker/amd64"].action is Action.BLOCKED
    for way in ("osImageURL", "baseImage", "machine-config-osimageurl"):
        assert way in reason.message
    assert (reason.path, reason.line) == ("p/worker/Containerfile", 1)
    known = cells(plan(NO_BASE, NO_BASE, Scope(os_image="quay.io/os/cluster@sha256:" + "a" * 64)))
    assert known["worker/amd64"].action is Action.REUSE


def test_what_a_cluster_wrote_names_no_base() -> None:
    generated = machine_config(spec="  osImageURL: quay.io/os/rendered:1\n").replace(
        "metadata:\n", f"metadata:\n  annotations: {{{GROUP}/generated-by-controller-version: v4}}\n"
    )
    made = plan(NO_BASE, NO_BASE | {"machines/a.yaml": generated})
    assert cells(made)["worker/amd64"].action is Action.BLOCKED


def test_a_base_made_from_the_pool_itself_is_refused() -> None:
    files = START | {"p/worker/os.yaml": mosc("worker", push="quay.io/os/base:mine")}
    found = cells(plan(files, files | {"p/worker/Containerfile": CONFIGS + "# again\n"}))
    assert {name for name, cell in found.items() if cell.action is Action.BLOCKED} == {
        "worker/amd64",
        "worker/arm64",
    }


def test_a_base_made_from_the_pool_by_way_of_another_is_refused() -> None:
    files = START | {
        "p/plain/os.yaml": mosc("plain", push="quay.io/os/base:1"),
        "p/plain/Containerfile": "FROM registry.example.com/os/worker:latest\n",
    }
    found = cells(plan(files, files))
    assert found["worker/amd64"].action is Action.BLOCKED
    assert "pool worker itself" in found["worker/amd64"].reasons[0].message
    assert found["infra/amd64"].action is Action.REUSE


@pytest.mark.tools
def test_a_program_that_shell_text_is_read_by_is_not_replaced_unseen() -> None:
    text = 'FROM configs\nRUN if [ "$(uname -m)" = aarch64 ]; then touch /arm; fi\n'
    program = machine_config(path="/usr/local/bin/uname")
    files = START | {"p/worker/Containerfile": text, "machines/a.yaml": program}
    history = History(FakeObjects([files]), engine=Engine(trees=ShfmtParser(installed()).tree))
    found = cells(Preview(history, Scope()).plan(FIRST, FIRST))
    assert found["worker/amd64"].action is Action.BLOCKED
    assert found["worker/amd64"].reasons[0].path == "machines/a.yaml"
    assert found["infra/amd64"].action is Action.REUSE


def test_an_old_commit_is_read_with_its_own_machine_configs() -> None:
    objects = FakeObjects([START, START | {"machines/a.yaml": machine_config(contents="data:,2")}])
    history = History(objects)
    for _ in range(2):
        first, second = (history.read_again("worker", Arch.AMD64, f"{n:040x}", "") for n in (1, 2))
        assert first is not None
        assert second is not None
        assert first.inputs.definition != second.inputs.definition
        history.settle()
    broken = objects.add(START | {"machines/a.yaml": BROKEN})
    assert history.read_again("worker", Arch.AMD64, broken, "") is None
    with pytest.raises(InvalidInput):
        history.inputs(history.catalogue(broken).by_name["worker"], Arch.AMD64, "")


def test_a_daemon_builds_what_they_change_and_points_back_after_a_revert() -> None:
    bench = Bench()
    files = {path: text for path, text in START.items() if "infra" not in path and "plain" not in path}
    bench.commit(files)
    assert actions(bench.settle()) == {Action.REUSE}
    assert bench.started == 2
    request = next(iter(bench.builder.requests.values()))
    assert request.configs is not None
    assert request.configs.text.startswith("FROM quay.io/os/base:1 AS configs\n")
    assert request.containerfile == CONFIGS
    assert [base.ref for base in request.bases] == ["quay.io/os/base:1"]
    first = bench.images()

    bench.commit(files | {"machines/a.yaml": machine_config(contents="data:,2")})
    bench.settle()
    assert bench.started == 4
    bench.commit(files)
    bench.settle()
    assert (bench.started, bench.images()) == (4, first)
    bench.push_base("second")
    bench.settle()
    assert bench.started == 6


def test_the_cluster_is_asked_only_where_git_does_not_name_the_base() -> None:
    site = Site(Arch.AMD64)
    ours = {path: text for path, text in START.items() if "infra" not in path and "plain" not in path}
    site.commit(ours)
    site.passes()
    assert (site.cluster.asked, site.started) == (0, 1)

    site.commit(ours | {"reconciler.yaml": config("amd64")})
    result = site.passes()
    assert actions(result) == {Action.BLOCKED}
    assert site.cluster.asked > 0
    site.cluster.images = ReleaseImages("quay.io/os/base:1", "quay.io/os/extensions:1")
    assert actions(site.passes()) == {Action.REUSE}
    request = list(site.builder.requests.values())[-1]
    assert request.configs is not None
    assert request.configs.text.startswith("FROM quay.io/os/base:1 AS")
    assert [base.ref for base in request.bases] == ["quay.io/os/base:1"]

    site.cluster.refusal = ClusterError("not allowed", hint="give it the right")
    result = site.passes()
    assert actions(result) == {Action.BLOCKED}
    assert any("not allowed" in str(fault) for fault in result.warnings)
