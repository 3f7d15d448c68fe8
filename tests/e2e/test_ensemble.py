"""Five models with different rates train as an ensemble, while parts of the cluster fail."""

import time
from functools import partial

import pytest

from ensembletest import members
from ensembletest.observe import Observer, phases, rates_table
from localcluster import access
from localcluster.access import NodeAccess
from longruns import LONG
from sandbox import Sandbox
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

pytestmark = [pytest.mark.e2e, LONG]

OPERATOR = "gputopo-operator"
SECONDS = 120.0
MOST_GPUS = 16
MODELS = members.five(SECONDS)


true_rate = partial(members.true_rate, MODELS)


def measured(status: Object) -> bool:
    """Whether the rate of each member that runs is measured."""
    found = status.get("members") or []
    return len(found) == len(MODELS) and all(
        each.get("measuredMicroItemsPerSecond") for each in found if each["phase"] == "Running"
    )


def test_members_train_at_one_pace_while_parts_fail(
    installed: Installed, sandbox: Sandbox, nodes: NodeAccess
) -> None:
    spec = {"maxGPUs": MOST_GPUS, "itemsPerEpoch": 1}
    sandbox.create(members.manifest("search", MODELS, installed.trainer_image, **spec))
    search = Observer(sandbox.kubectl, sandbox.namespace, "search")
    search.wait("a member runs", lambda status: "Running" in phases(status).values(), 60)
    for _ in range(3):
        _kill_operator(nodes)
    status = search.wait("the rates are measured", measured, 100)
    print("\n".join(rates_table(status, true_rate)))
    print(sandbox.kubectl.run("get", "gens", "-n", sandbox.namespace, "-o", "wide"))
    for each in status["members"]:
        if each["phase"] == "Running":
            truth = true_rate(each["name"], each["gpus"])
            assert each["measuredMicroItemsPerSecond"] / 1e6 == pytest.approx(truth, rel=0.2)
    _lose_a_node(nodes, search)
    done = search.wait("the ensemble has succeeded", lambda it: it["phase"] == "Succeeded", 300)
    assert search.twice == set()
    assert search.most_gpus <= MOST_GPUS
    assert set(phases(done).values()) == {"Succeeded"}
    reasons = {event["reason"] for event in sandbox.kubectl.list("events", sandbox.namespace)}
    assert {"EnsemblePlanned", "MemberStarted", "RateDiffers"} <= reasons
    print(f"makespan with three kills and a lost node: {search.makespan():.0f} s")


def _kill_operator(nodes: NodeAccess) -> None:
    """Kill the operator while it works; kubelet waits before it restarts a program often killed."""
    wait_for("the operator runs", lambda: access.nodes_of(nodes, OPERATOR), timeout_s=90)
    time.sleep(3)
    assert access.kill(nodes, OPERATOR) > 0


def _lose_a_node(nodes: NodeAccess, search: Observer) -> None:
    """Stop the kubelet of a member's node, until Kubernetes has deleted its pods."""
    running = [each for each in search.look()["members"] if each["phase"] == "Running"]
    lost = running[-1]
    others = {each["name"] for each in running if each["node"] != lost["node"]}
    nodes.set_kubelet(lost["node"], on=False)
    try:
        wait_for(
            f"{lost['name']} waits for its pod on {lost['node']} to end",
            lambda: search.member(lost["name"])["phase"] == "Stopping",
            timeout_s=90,
        )
        found = phases(search.look())
        assert {found[name] for name in others} <= {"Running", "Succeeded"}
    finally:
        nodes.set_kubelet(lost["node"], on=True)
