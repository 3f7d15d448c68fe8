"""A what-if question has the chosen node, the figures on other nodes, and the reasons."""

import pytest

from gputopo.catalogue import named
from gputopo.placement.model import PolicyName
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.model import PendingState
from gputopo_explain.pending.waits import wait_outlook
from gputopo_explain.whatif import WhatIf, place_live
from gputopo_kube.document import ObjectKey
from support.builders.live import cluster, dgx, gpu_user, installed, kube_node, with_cpu
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import Document, pod, topology_object
from support.builders.requests import pod_view


def requested(gpus: int = 2, **annotations: str) -> Document:
    values = {f"gputopo.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return pod("requested", gpus, annotations=values)


def chosen_node(found: WhatIf) -> str | None:
    return found.chosen.node if found.chosen else None


def test_best_links_are_chosen_and_equal_nodes_share_one_option() -> None:
    topologies = [
        topology_object("n1", dgx("n1")),
        topology_object("n2", dgx("n2")),
        topology_object("slow", named("pcie-8gpu", node="slow")),
    ]
    names = ["n1", "n2", "slow"]
    found = place_live(requested(3), cluster(nodes=names, topologies=topologies), runners_up=2)
    assert [[*option.nodes] for option in found.options] == [["n1", "n2"], ["slow"]]
    assert [option.best for option in found.options] == [True, False]
    assert [option.score for option in found.options] == [10, 9]
    assert found.chosen is not None
    assert [*found.chosen.equally_good] == ["n1", "n2"]
    assert found.chosen.matches[0].gpus == (0, 2, 3)
    assert len(found.chosen.matches) == 3
    assert [*found.chosen.uuids] == [dgx("n1").gpus[it].uuid for it in (0, 2, 3)]


def test_of_equally_good_nodes_the_fullest_is_chosen() -> None:
    topologies = [topology_object(name, named("pcie-8gpu", node=name)) for name in ("n1", "n2")]
    user = gpu_user("a", "n2", 0, 4, of=named("pcie-8gpu", node="n2"))
    found = place_live(requested(1), cluster([user], topologies=topologies))
    assert chosen_node(found) == "n2"
    assert [option.free_gpus for option in found.options] == [4, 8]


def test_policy_of_the_installation_is_used() -> None:
    found = place_live(requested(3), cluster()).explanation.request
    assert found is not None
    assert found.policy is PolicyName.PRESERVE


def test_only_one_node_can_be_considered() -> None:
    objects = cluster([gpu_user("a", "n2", 0, 7)])
    assert chosen_node(place_live(requested(1), objects)) == "n2"
    assert chosen_node(place_live(requested(1), objects, only="n1")) == "n1"
    assert place_live(requested(2), objects, only="n2").chosen is None


def after_end(objects: ClusterObjects, *names: str) -> ClusterObjects:
    uids = [objects.snapshot.users(ObjectKey("default", name)) for name in names]
    return objects.after(ended=frozenset().union(*uids))


def test_pods_can_be_left_out_with_their_gpus_and_cpus() -> None:
    objects = cluster([gpu_user("a", "n1", 0, 8, cpu="60")], nodes=["n1"])
    wants = with_cpu(requested(), "30")
    before = place_live(wants, objects)
    assert before.chosen is None
    assert before.explanation.state is PendingState.WAITING
    after = place_live(wants, after_end(objects, "a"))
    assert chosen_node(after) == "n1"


def test_pods_that_were_left_out_are_not_named_again() -> None:
    users = [gpu_user("a", "n1", 0, 4), gpu_user("b", "n1", 4, 4)]
    users.append(pod("unmanaged", 8, node="n2", phase="Running"))
    objects = after_end(cluster(users), "a", "unmanaged").after(without_nodes={"n2"})
    explanation = place_live(requested(8), objects).explanation
    assert [[pod.pod for pod in each.pods] for each in explanation.releases] == [["default/b"]]


def test_nodes_can_be_left_out() -> None:
    found = place_live(requested(), cluster().after(without_nodes={"n1"}))
    assert chosen_node(found) == "n2"
    assert [group.nodes for group in found.explanation.groups] == []


def test_nodes_can_be_left_out_if_the_node_objects_are_not_readable() -> None:
    objects = cluster(unread={LiveKind.NODES: "no permission"}).after(without_nodes={"n1"})
    assert chosen_node(place_live(requested(), objects)) == "n2"


def test_only_nodes_that_the_scheduler_permits_are_considered() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    nodes = [kube_node("n1", taints=[taint]), kube_node("n2")]
    assert chosen_node(place_live(requested(), cluster(kube_nodes=nodes))) == "n2"


@pytest.mark.parametrize(("mode", "node"), [("Fixed", "n1"), ("Proportional", "n2")])
def test_share_of_a_sized_pod_decides_between_equal_gpus(mode: str, node: str) -> None:
    topologies = [topology_object(name, dgx(name)) for name in ("n1", "n2")]
    for topology, cpus in zip(topologies, (8000, 64000), strict=True):
        topology["status"]["sizedCapacity"] = {"milliCPU": cpus, "memory": 1, "gpus": 8}
    found = place_live(requested(2, resources_mode=mode), cluster(topologies=topologies))
    assert chosen_node(found) == node
    shares = [option.cpu_share for option in found.options]
    assert shares == ([None] if mode == "Fixed" else [16000, 2000])


def test_rejected_pod_has_the_reason() -> None:
    found = place_live(requested(2, pattern="Rng"), cluster())
    assert found.explanation.state is PendingState.REJECTED
    assert found.options == ()


def test_policy_utility_considers_the_jobs_on_each_node() -> None:
    noisy = [gpu_user(name, "n1", at, 1) for name, at in (("a", 0), ("b", 4))]
    quiet = [gpu_user(name, "n2", at, 1) for name, at in (("c", 0), ("d", 4))]
    for each in (*noisy, *quiet):
        name = "noisy" if each in noisy else "quiet"
        each["metadata"]["annotations"]["gputopo.io/profile"] = name
    own = learnt_profile("own", beside("default/noisy", 30), beside("default/quiet", 1))
    objects = cluster([*noisy, *quiet], profiles=[own])
    job = requested(2, policy="Utility", profile="own")
    found = place_live(job, objects, runners_up=1)
    assert chosen_node(found) == "n2"
    assert [option.score for option in found.options] == [10, 9]
    assert found.chosen is not None
    best, second = (match.utility for match in found.chosen.matches)
    assert best is not None
    assert second is not None
    assert best.value >= second.value
    assert found.options[0].match == found.chosen.matches[0]
    preserve = place_live(requested(2, profile="own"), objects)
    assert preserve.chosen is not None
    assert preserve.chosen.matches[0].utility is None
    assert [*preserve.chosen.equally_good] == ["n1", "n2"]


def users_beside(node: str, *free: int) -> list[Document]:
    """Return pods of one GPU each on all GPUs of a node but the free ones."""
    return [gpu_user(f"{node}-{at}", node, at, 1) for at in range(8) if at not in free]


def with_minimum(percent: int, created: str | None = None) -> Document:
    document = requested(2, policy="Utility", min_utility_percent=str(percent))
    document["metadata"]["creationTimestamp"] = created
    return document


@pytest.mark.parametrize("created", [None, "2026-01-01T11:55:00Z"])
def test_a_pod_that_the_extender_would_postpone_gets_no_node(created: str | None) -> None:
    objects = cluster(users_beside("n1", 0, 5), nodes=["n1"])
    found = place_live(with_minimum(90, created), objects)
    explanation = found.explanation
    assert explanation.state is PendingState.POSTPONED
    assert (found.chosen, found.options, [*explanation.fitting]) == (None, (), [])
    assert [(it.reason, it.permanent, it.nodes) for it in explanation.groups] == [
        ("utility below 0.9", False, ["n1"])
    ]
    assert explanation.wait is not None
    until = "2026-01-01T12:10:00Z" if created is None else "2026-01-01T12:05:00Z"
    assert explanation.wait.until == until


def test_a_pod_that_waited_for_its_longest_wait_or_never_waits_is_placed() -> None:
    objects = cluster(users_beside("n1", 0, 5), nodes=["n1"])
    late = place_live(with_minimum(90, "2026-01-01T11:00:00Z"), objects)
    assert (chosen_node(late), late.explanation.state) == ("n1", PendingState.FITS)
    never = with_minimum(90)
    never["metadata"]["annotations"]["gputopo.io/max-wait-seconds"] = "0"
    assert chosen_node(place_live(never, objects)) == "n1"


def test_nodes_below_the_least_utility_are_not_chosen() -> None:
    objects = cluster([*users_beside("n1", 0, 5), *users_beside("n2", 0, 3)])
    assert [*place_live(with_minimum(1), objects).explanation.fitting] == ["n1", "n2"]
    found = place_live(with_minimum(90), objects)
    assert (chosen_node(found), [*found.explanation.fitting]) == ("n2", ["n2"])
    assert found.explanation.summary == "the pod fits 1 node now"
    assert [(it.reason, it.nodes) for it in found.explanation.groups] == [
        ("utility below 0.9", ["n1"])
    ]


def test_a_pod_that_fits_nowhere_waits_for_no_better_placement() -> None:
    objects = cluster(users_beside("n1"), nodes=["n1"])
    view, request = pod_view(with_minimum(90)), place_live(with_minimum(90), objects).explanation
    assert request.request is not None
    assert wait_outlook(view, request.request, objects, ["n1"]) == (["n1"], "", None)


def test_weights_of_the_installation_decide_by_utility() -> None:
    user = gpu_user("a", "n1", 0, 3)
    for weights, gpus in (("100,0,0", 2), ("1,0,99", 1)):
        objects = cluster(
            [user], nodes=["n1"], deployments=[installed(f"--utility-weights={weights}")]
        )
        found = place_live(requested(2, policy="Utility"), objects).chosen
        assert found is not None
        on_first_socket = sum(gpu < 4 for gpu in found.matches[0].gpus)
        assert on_first_socket == 2 - gpus, weights
