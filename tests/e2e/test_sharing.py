"""Pods share a GPU by MPS, in all sources alike, and beside pods with whole GPUs."""

import json
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

import workloads
from gputopo.api.annotations import parse_placement
from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import RESOURCE, SHARING_MEMORY_ANNOTATION
from gputopo.api.profile import SharingFact
from gputopo.api.shares import gpu_of, share_id, share_resource
from learning import LEARN_SECONDS, Learning, learning_in
from learntest import laws
from learntest.manifests import Run
from localcluster.access import NodeAccess
from longruns import LONG
from sandbox import Sandbox
from sharetest.pods import CLIENT
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("beside_counters")]

MOST_PODS = 3
SLOWER_PERCENT = 250
"""Beside each other, both jobs run at 1 / 3.5 = 29 % of their speed: together 57 % of one GPU."""

FOLDER = "/run/gputopo-neighbours"


@pytest.fixture(scope="module")
def learning(installed: Installed) -> Iterator[Learning]:
    with learning_in(installed, "sharing") as made:
        yield made


def client_pod(name: str, image: str, node: str, *arguments: str) -> Object:
    """Return a pod that requests a share, and whose program is a client of MPS."""
    pod = workloads.gpu_pod(
        name, 1, image=image, node=node, command=["python3", "-u", CLIENT, *arguments]
    )
    pod["metadata"]["annotations"] = {SHARING_MEMORY_ANNOTATION: "2Gi"}
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["terminationGracePeriodSeconds"] = 5
    pod["spec"]["containers"][0]["resources"] = {"limits": {share_resource(RESOURCE): "1"}}
    return pod


def fill(box: Sandbox, node: str, gpus: int, name: str = "whole") -> None:
    """Give whole GPUs of a node to a pod."""
    box.create(workloads.gpu_pod(name, gpus, image=box.image, node=node))
    box.wait_running(1, only=name)


def shares_of(box: Sandbox, node: str) -> dict[str, str]:
    """Return the pods that share GPUs of a node by device ID of the share, as the agent reports."""
    gpus = box.kubectl.get("gputopology", node)["status"]["gpus"]
    return {share["id"]: share["pod"] for gpu in gpus for share in gpu.get("shares", ())}


def events(box: Sandbox, pod: str, reason: str) -> list[str]:
    found = box.kubectl.list("events", box.namespace)
    return [
        str(each.get("message") or each.get("note"))
        for each in found
        if each["reason"] == reason
        and (each.get("involvedObject") or each.get("regarding") or {}).get("name") == pod
    ]


def test_pods_share_the_last_gpu_and_exclude_pods_with_whole_gpus(
    sandbox: Sandbox, installed: Installed, pcie: str, nodes: NodeAccess
) -> None:
    fill(sandbox, pcie, 7)
    names = [f"share-{number}" for number in range(MOST_PODS)]
    for name in names:
        sandbox.create(client_pod(name, installed.trainer_image, pcie, "--memory", "1G"))
        sandbox.wait_running(1, only=name)
    sandbox.assert_sources_agree()
    (gpu,) = {gpu_of(device) for name in names for device in sandbox.gpus_of(name)}
    expected = {share_id(gpu, number): name for number, name in enumerate(names)}
    wait_for("the agent reports the shares", lambda: shares_of(sandbox, pcie) == expected)

    placement = parse_placement(
        sandbox.kubectl.get("pod", names[1], sandbox.namespace)["metadata"]["annotations"]
    )
    assert placement is not None
    assert placement.sharing is not None
    assert placement.sharing.beside == [f"{sandbox.namespace}/{names[0]}"]

    sandbox.create(client_pod("fourth", installed.trainer_image, pcie))
    sandbox.create(workloads.gpu_pod("late", 1, image=sandbox.image, node=pcie))
    wait_for(
        "reasons of the pods that do not fit",
        lambda: (
            "the most pods already" in sandbox.scheduling_message("fourth")
            and "beside those that pods share" in sandbox.scheduling_message("late")
        ),
    )
    sandbox.delete_pods(["fourth"])
    sandbox.delete_pods(names)
    sandbox.wait_running(1, only="late")
    assert sandbox.gpus_of("late") == (gpu,)
    sandbox.assert_sources_agree()
    folders = nodes.run(pcie, "ls", "/run/gputopo-mps/gpus")
    assert folders.strip() == "", "MPS has ended on the GPU"


def test_memory_of_a_client_is_limited_to_what_its_pod_declares(
    sandbox: Sandbox, installed: Installed, pcie: str
) -> None:
    sandbox.create(client_pod("greedy", installed.trainer_image, pcie, "--memory", "3G"))

    def failed() -> bool:
        pod = sandbox.kubectl.get("pod", "greedy", sandbox.namespace)
        return workloads.phase(pod) == "Failed"

    wait_for("the client fails", failed)
    log = sandbox.kubectl.run("logs", "greedy", "-n", sandbox.namespace)
    assert log.splitlines()[-1] == "2", "CUDA error 2: out of memory"


def test_fatal_fault_of_one_client_is_reported_on_all_pods_that_it_hit(
    sandbox: Sandbox, installed: Installed, pcie: str
) -> None:
    fill(sandbox, pcie, 7)
    sandbox.create(client_pod("victim", installed.trainer_image, pcie))
    sandbox.wait_running(1, only="victim")
    sandbox.create(client_pod("cause", installed.trainer_image, pcie, "--fault-after", "3"))
    for name in ("victim", "cause"):
        wait_for(f"an event on {name}", partial(events, sandbox, name, "SharedGPUFault"))
    assert f"pod {sandbox.namespace}/cause caused" in events(sandbox, "victim", "SharedGPUFault")[0]
    assert "the pod caused a fatal fault" in events(sandbox, "cause", "SharedGPUFault")[0]
    sandbox.create(client_pod("next", installed.trainer_image, pcie, "--memory", "1G"))
    sandbox.wait_running(1, only="next")


def run(name: str, node: str, learning: Learning) -> Run:
    """Return a job that is much slower while the other one is on the same GPU."""
    minors = [str(gpu["minor"]) for gpu in learning.topologies[node]["gpus"]]
    other = {"first": "last", "last": "first"}[name]
    law = laws.plain_law(
        len(name),
        neighbours={
            "folder": FOLDER,
            "workload": name,
            "sockets": {minor: int(minor) for minor in minors},
            "percents": {other: SLOWER_PERCENT},
        },
    )
    return Run(
        name,
        law,
        node,
        gpus=1,
        measuring=MeasuringRequest(profile=name),
        folder=FOLDER,
        sharing={"mode": "Allowed", "ifSlow": "Move"},
    )


def solo_rate(learning: Learning, profile: str) -> int | None:
    facts = learning.status_of(profile).facts
    return facts.alone.micro_steps_per_second if facts and facts.alone else None


def sharing_facts(learning: Learning, profile: str) -> Sequence[SharingFact]:
    facts = learning.status_of(profile).facts
    return facts.sharing if facts else ()


@LONG
def test_sharing_that_does_not_pay_is_ended_learnt_and_not_tried_again(
    learning: Learning, pcie: str
) -> None:
    box = learning.box
    fill(box, pcie, 6)
    first, last = run("first", pcie, learning), run("last", pcie, learning)
    learning.start(first, last)
    gpus = {
        name: box.gpus_of(learning.pod_of(name)["metadata"]["name"]) for name in ("first", "last")
    }
    assert len({gpu_of(device) for (device,) in gpus.values()}) == 2, "two GPUs were idle"
    for name in gpus:
        wait_for(
            f"the rate of {name} alone",
            partial(solo_rate, learning, name),
            timeout_s=LEARN_SECONDS,
        )
    box.kubectl.run("delete", "gpujob", "-n", box.namespace, "--wait=true", "last")
    fill(box, pcie, 1, "seventh")
    learning.start(last)
    tried = learning.pod_of("last")["metadata"]["name"]
    (device,) = box.gpus_of(tried)
    assert gpu_of(device) == gpu_of(gpus["first"][0]), "an unknown pair is tried"

    note = wait_for(
        "the last pod is moved",
        lambda: next(iter(events(box, tried, "MovedFromSharedGPU")), None),
        timeout_s=LEARN_SECONDS,
    )
    print(note)
    assert f"{box.namespace}/{learning.pod_of('first')['metadata']['name']} does not pay" in note
    for name, other in (("first", "last"), ("last", "first")):
        (fact,) = wait_for(
            f"the fact of {name}",
            partial(sharing_facts, learning, name),
            timeout_s=LEARN_SECONDS,
        )
        print(name, fact)
        assert fact.beside == [f"{box.namespace}/{other}"]
        assert 230 <= fact.speed_permille <= 350

    def successor() -> str | None:
        jobs = {"gputopo.io/job": "last"}
        names = [
            str(pod["metadata"]["name"])
            for pod in box.pods()
            if jobs.items() <= pod["metadata"].get("labels", {}).items()
        ]
        return next((name for name in names if name != tried), None)

    name = wait_for("a pod after the eviction", successor, timeout_s=LEARN_SECONDS)
    wait_for(
        "the pair is not tried again",
        lambda: "sharing would not pay" in box.scheduling_message(name),
        timeout_s=LEARN_SECONDS,
    )
    print(json.dumps(shares_of(box, pcie)))
    box.delete_pods(["seventh"])
    box.wait_running(1, only=name)
    (device,) = box.gpus_of(name)
    assert gpu_of(device) != gpu_of(gpus["first"][0])
