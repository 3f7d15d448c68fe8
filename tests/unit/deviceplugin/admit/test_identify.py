import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    ContainerAllocation,
    PreferenceRequest,
    identify,
    unresolved_pods,
)
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer
from gputopo_kube.pods import PodView

NODE = "n1"
ALL = [GpuUuid(f"GPU-{index}") for index in range(8)]


def uuids(*indices: int) -> frozenset[GpuUuid]:
    return frozenset(ALL[index] for index in indices)


def pod(
    name: str,
    containers: Mapping[str, Sequence[int]],
    *,
    live: bool = True,
    deleting: bool = False,
    init: tuple[GpuContainer, ...] = (),
) -> PodView:
    placed = {key: [ALL[index] for index in indices] for key, indices in containers.items()}
    annotation = {"uid": f"uid-{name}", "node": NODE, "generation": 1, "containers": placed}
    return PodView(
        uid=f"uid-{name}",
        key=ObjectKey("default", name),
        node=NODE,
        phase="Pending" if live else "Failed",
        deleting=deleting,
        containers=(
            *init,
            *(GpuContainer(key, len(indices)) for key, indices in containers.items()),
        ),
        annotations={GPUS_ANNOTATION: json.dumps(annotation)},
    )


def listed(name: str, **containers: frozenset[GpuUuid]) -> ListedPod:
    return ListedPod(ObjectKey("default", name), containers)


def run(
    size: int,
    entries: Sequence[ListedPod],
    *pods: PodView,
    required: frozenset[GpuUuid] = frozenset(),
    rejected: Sequence[str] = (),
) -> ContainerAllocation | AdmissionRejection:
    used = frozenset().union(*(gpus for entry in entries for gpus in entry.containers.values()))
    request = PreferenceRequest(frozenset(ALL) - used, required, size)
    known = {record.key: record for record in pods}
    return identify(request, entries, known, node=NODE, rejected=rejected)


def reason_of(outcome: ContainerAllocation | AdmissionRejection) -> str:
    assert isinstance(outcome, AdmissionRejection)
    return outcome.reason


def test_the_only_pod_without_its_gpus_is_identified() -> None:
    a, b = pod("a", {"main": [0]}), pod("b", {"main": [2, 1]})
    entries = [listed("a", main=uuids(0)), listed("b", main=uuids())]
    assert run(2, entries, a, b) == ContainerAllocation(b, "main", (ALL[2], ALL[1]))


def test_pods_that_request_no_gpu_are_ignored() -> None:
    a, web = pod("a", {"main": [0]}), pod("web", {})
    entries = [listed("web", main=uuids()), listed("a", main=uuids())]
    assert run(1, entries, a, web) == ContainerAllocation(a, "main", (ALL[0],))


def test_containers_are_served_in_the_order_of_the_spec() -> None:
    a = pod("a", {"first": [0], "second": [1]})
    entries = [listed("a", second=uuids(), first=uuids(), log=uuids())]
    assert run(1, entries, a) == ContainerAllocation(a, "first", (ALL[0],))
    entries = [listed("a", second=uuids(), first=uuids(0), log=uuids())]
    assert run(1, entries, a) == ContainerAllocation(a, "second", (ALL[1],))


def test_a_pod_whose_next_container_has_another_size_is_not_identified() -> None:
    a, b = pod("a", {"first": [0, 1], "second": [2]}), pod("b", {"main": [3]})
    entries = [listed("a", first=uuids(), second=uuids()), listed("b", main=uuids())]
    assert run(1, entries, a, b) == ContainerAllocation(b, "main", (ALL[3],))


def test_ended_deleted_and_rejected_pods_are_not_identified() -> None:
    b = pod("b", {"main": [3]})
    entries = [listed("a", main=uuids()), listed("b", main=uuids())]
    wanted = ContainerAllocation(b, "main", (ALL[3],))
    assert run(1, entries, pod("a", {"main": [0]}, live=False), b) == wanted
    assert run(1, entries, pod("a", {"main": [0]}, deleting=True), b) == wanted
    assert run(1, entries, pod("a", {"main": [0]}), b, rejected=["uid-a"]) == wanted


def test_a_rejection_without_a_fitting_pod_names_the_waiting_pods() -> None:
    entries = [listed("a", main=uuids()), listed("unknown", main=uuids())]
    message = reason_of(run(1, entries, pod("a", {"main": [0, 1]})))
    assert message == (
        "no pod of this node waits for 1 GPUs in its next container (waiting: default/a for 2)"
    )


def test_the_agent_does_not_guess_between_several_pods() -> None:
    entries = [listed("a", main=uuids()), listed("b", main=uuids())]
    message = reason_of(run(1, entries, pod("a", {"main": [0]}), pod("b", {"main": [1]})))
    assert message.endswith("kubelet does not name the pod of its request: default/a, default/b")


def test_gpus_that_kubelet_lists_with_another_pod_are_rejected() -> None:
    entries = [listed("b", main=uuids(0)), listed("a", main=uuids())]
    message = reason_of(run(1, entries, pod("a", {"main": [0]}), pod("b", {"main": [0]})))
    assert message == "pod default/a: GPU-0 is used by pod default/b"


def test_gpus_that_kubelet_requires_must_be_the_pods_own() -> None:
    a, entries = pod("a", {"main": [0, 1]}), [listed("a", main=uuids())]
    assert run(2, entries, a, required=uuids(1)) == ContainerAllocation(a, "main", (ALL[0], ALL[1]))
    message = reason_of(run(2, entries, a, required=uuids(5, 3, 0)))
    assert "kubelet requires GPU-3, GPU-5, which the annotation does not name" in message
    assert "topology manager" not in message  # it is never the reason
    assert message.endswith("differs from the annotation; create the pod again")


def test_a_gpu_given_twice_to_one_container_is_rejected() -> None:
    a = pod("a", {"main": [0, 0]})
    reason = "pod default/a: container main requests 2 GPUs, but the annotation of the pod names 1"
    rejected = AdmissionRejection(reason, a, node_fault=False)
    assert run(2, [listed("a", main=uuids())], a) == rejected


def test_an_init_container_gets_the_first_ranks_of_the_container_that_keeps_them() -> None:
    a = pod("a", {"main": [5, 2, 0]}, init=(GpuContainer("warm", 2, ContainerKind.INIT),))
    entries = [listed("a", main=uuids())]
    assert run(2, entries, a) == ContainerAllocation(a, "warm", (ALL[5], ALL[2]))
    # Kubelet reuses them: it requires them in its request for the next container.
    assert run(3, entries, a, required=uuids(5, 2)) == ContainerAllocation(
        a, "main", (ALL[5], ALL[2], ALL[0])
    )


def test_a_larger_init_container_gets_the_required_gpus_and_others() -> None:
    init = (GpuContainer("one", 1, ContainerKind.INIT), GpuContainer("two", 2, ContainerKind.INIT))
    a = pod("a", {"main": [5, 2, 0]}, init=init)
    entries = [listed("a", main=uuids())]
    assert run(2, entries, a, required=uuids(0)) == ContainerAllocation(a, "two", (ALL[5], ALL[0]))


def test_an_init_container_gets_gpus_of_the_next_sidecar() -> None:
    init = (GpuContainer("warm", 1, ContainerKind.INIT), GpuContainer("proxy", 2))
    a = replace(
        pod("a", {"proxy": [1, 4], "main": [5, 2]}), containers=(*init, GpuContainer("main", 2))
    )
    entries = [listed("a", proxy=uuids(), main=uuids())]
    assert run(1, entries, a) == ContainerAllocation(a, "warm", (ALL[1],))
    assert run(2, entries, a, required=uuids(1)) == ContainerAllocation(
        a, "proxy", (ALL[1], ALL[4])
    )
    entries = [listed("a", proxy=uuids(1, 4), main=uuids())]
    assert run(2, entries, a) == ContainerAllocation(a, "main", (ALL[5], ALL[2]))


def test_an_init_container_that_requests_too_many_gpus_is_rejected_with_a_remedy() -> None:
    a = pod("a", {"main": [0]}, init=(GpuContainer("warm", 2, ContainerKind.INIT),))
    assert reason_of(run(2, [listed("a", main=uuids())], a)) == (
        "pod default/a: init container warm requests 2 GPUs, but container main after it requests "
        "1; an init container may not request more GPUs than the next sidecar or application "
        "container"
    )
    alone = pod("a", {}, init=(GpuContainer("warm", 2, ContainerKind.INIT),))
    assert "no sidecar or application container after it requests any" in reason_of(
        run(2, [listed("a", main=uuids())], alone)
    )


def test_only_pods_that_may_wait_are_read() -> None:
    entries = [
        listed("holding", main=uuids(0)),
        listed("half", first=uuids(1), second=uuids()),
        listed("web", main=uuids()),
        listed("unknown", main=uuids()),
    ]
    pods = [pod("holding", {"main": [0]}), pod("half", {"first": [1]}), pod("web", {})]
    requesting, idle = unresolved_pods(entries, {record.key: record for record in pods})
    assert requesting == {ObjectKey("default", "unknown"), ObjectKey("default", "half")}
    assert idle == {ObjectKey("default", "web")}


@pytest.mark.parametrize(
    "other", [None, pod("x", {"main": [1]}), pod("x", {"main": [1]}, live=False)]
)
def test_a_running_pod_without_record_is_identified_only_where_no_other_pod_may_wait(
    other: PodView | None,
) -> None:
    runs = replace(pod("a", {"main": [0]}), phase="Running")
    assert run(1, [listed("a", main=uuids())], runs) == ContainerAllocation(runs, "main", (ALL[0],))
    entries = [listed("a", main=uuids()), listed("x", main=uuids())]
    known = [] if other is None else [other]
    message = reason_of(run(1, entries, runs, *known, rejected=["uid-x"]))
    assert message == (
        "kubelet does not name the pod of its request: it may be default/a, which runs already, "
        "or a pod that may wait for GPUs (default/x)"
    )
    idle = pod("x", {})
    assert run(1, entries, runs, idle) == ContainerAllocation(runs, "main", (ALL[0],))
