"""A Secret that is missing: named wherever an administrator looks, and no failure once it is there."""

from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from tests.e2e.cluster.conftest import Site
from tests.e2e.test_run import reconciled
from tests.e2e.test_run_faults import at_rest
from tests.servers.daemon import DaemonProcess, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.tools]


def test_a_missing_secret_blocks_by_name_until_it_is_there(site: Site) -> None:
    stage, plane = site.stage, site.plane
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    path = f"/api/v1/namespaces/{site.namespace}/secrets"
    held = plane.api.get(f"{path}/push")
    plane.api.delete(f"{path}/push")
    missing = f"the Secret push is missing in namespace {site.namespace}"

    # Who asks once is told at once.
    said = stage.once()
    assert said.status == 1
    assert missing in said.err
    with DaemonProcess(stage) as daemon:
        wait_for("the state", lambda: [one["status"].get("state") for one in site.works] == ["Blocked"])
        said = stage.reconciler("status", "--config", str(stage.config))
        assert said.status == 1
        (line,) = [line for line in said.out.splitlines() if line.startswith("worker")]
        assert "blocked" in line
        assert missing in line
        listed = plane.kubectl("--namespace", site.namespace, "get", "mab", "--output", "wide")
        assert "Blocked" in listed
        assert missing in listed
        told = [e for e in site.objects("events", "api/v1") if e["reason"] == "BuildBlocked"]
        assert [(e["type"], missing in e["message"]) for e in told] == [("Warning", True)]
        described = plane.kubectl("--namespace", site.namespace, "describe", "mab")
        assert missing in described
        assert "BuildBlocked" in described
        assert site.annotations["build-state"] == "Prepared"

        about = {"name": "push"}
        plane.api.create(
            path, {key: held[key] for key in ("apiVersion", "kind", "type", "data")} | {"metadata": about}
        )
        pool = {"metadata": {"annotations": {"reconciler.machineos.dev/requestedAt": "now"}}}
        plane.api.patch("/apis/machineconfiguration.openshift.io/v1/machineconfigpools/worker", pool)
        reconciled(stage, stage.git("rev-parse", "HEAD"))
        at_rest(daemon)
        (work,) = site.works
        assert work["status"]["state"] == "Succeeded"
        assert [c["type"] for c in work["status"]["conditions"] if c["status"] == "True"] == [
            "Succeeded",
            "Ready",
        ]
        assert daemon.stop() == 0
