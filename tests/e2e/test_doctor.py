"""``gputopo doctor`` and ``gputopo who-has`` on a healthy cluster."""

from functools import partial
from typing import Any

import pytest

from sandbox import Sandbox
from showcase.kubectl import Kubectl, wait_for
from support.cli.command_line import Done, process

pytestmark = pytest.mark.e2e


def gputopo(kubectl: Kubectl, *words: str) -> Done:
    done = process(*words, program="kubectl-gputopo", KUBECONFIG=str(kubectl.kubeconfig))
    assert done.err == ""
    return done


def findings(kubectl: Kubectl, *words: str) -> list[tuple[str, str, str]]:
    """Return check, object and problem of all findings; every check must be complete."""
    document = gputopo(kubectl, "doctor", "-o", "json", *words).document
    assert document["notChecked"] == 0
    return [
        (check["check"], found["object"], found["problem"])
        for check in document["checks"]
        for found in check["findings"]
    ]


def rows(kubectl: Kubectl, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gputopo(kubectl, "who-has", "-o", "json", *words).document
    return found


def _observed(kubectl: Kubectl, pod: str, gpus: int) -> list[dict[str, Any]] | None:
    used = [row for row in rows(kubectl, "--pod", pod) if row["observed"]]
    return used if len(used) == gpus else None


def test_doctor_finds_nothing_on_a_healthy_cluster(kubectl: Kubectl) -> None:
    try:
        wait_for("no findings", lambda: not findings(kubectl))
    except TimeoutError:
        assert findings(kubectl) == []
    assert gputopo(kubectl, "doctor").status == 0


def test_who_has_shows_the_gpus_of_kubelet_and_containers(
    sandbox: Sandbox, dgx1: str, pcie: str
) -> None:
    kubectl = sandbox.kubectl
    for name, gpus, node in (("three", 3, dgx1), ("one", 1, pcie)):
        sandbox.run_pod(name, gpus, node=node, policy="Preserve")
        pod = f"{sandbox.namespace}/{name}"
        wait_for(f"{gpus} GPUs of {pod} are observed", partial(_observed, kubectl, pod, gpus))
    truth = {
        (user.node, uuid): (user.pod, user.container, rank)
        for user in sandbox.assert_sources_agree()
        for rank, uuid in enumerate(user.visible)
    }
    shown = {
        (row["node"], row["uuid"]): (
            row["pod"]["name"],
            row["pod"]["container"],
            row["intendedRank"],
        )
        for row in rows(kubectl)
        if row["pod"] and row["pod"]["namespace"] == sandbox.namespace and not row["difference"]
    }
    assert shown == truth
    assert len(truth) == 4
    started = kubectl.get("pod", "one", sandbox.namespace)["status"]["startTime"]
    (row,) = rows(kubectl, pcie, "--gpu", next(uuid for node, uuid in truth if node == pcie))
    assert row["pod"]["since"] == started
