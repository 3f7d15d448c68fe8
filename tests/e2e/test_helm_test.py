"""``helm test`` on an installation that works, and what is left of it."""

import subprocess

import pytest

from showcase.install import NAMESPACE, Installed

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("beside_counters")]


def test_helm_test_passes_and_leaves_no_rights(installed: Installed) -> None:
    if installed.platform is None:
        pytest.skip("this test needs the helm of a cluster that it has started")
    kubectl = installed.kubectl
    done = subprocess.run(
        [
            *(installed.platform.program("helm"), "test", "gputopo"),
            *("--namespace", NAMESPACE, "--logs", "--timeout=150s"),
        ],
        env=kubectl.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    for check in ("operator", "scheduler", "deviceplugin", "topologies", "GPUJob", "pod", "forged"):
        assert ["passed", check] in lines, done.stdout
    for kind in ("serviceaccount", "role", "rolebinding", "clusterrole", "clusterrolebinding"):
        where = () if kind.startswith("cluster") else ("-n", NAMESPACE)
        left = kubectl.run("get", kind, "gputopo-test", *where, "--ignore-not-found")
        assert left == "", kind
