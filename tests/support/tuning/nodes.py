"""Nodes with tuned pods, given or random, and an operator that carries out targets at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from gputopo.api.profile import CpuFact, CpuPoint, WorkloadFacts
from gputopo.api.tuning import Amounts, ResourcesMode, TunedRecord
from gputopo.runtime.times import timestamp
from gputopo.tuning.model import (
    ContainerAmounts,
    Dataset,
    PendingPod,
    ResizeState,
    Target,
    TunedNode,
    TunedPod,
)
from gputopo.tuning.pods import amounts_of, floor_of, left_alone_because

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GIB = 2**30


def facts(points: Mapping[int, float], gpus: int = 1) -> WorkloadFacts:
    """Return facts from steps per second by CPU limit."""
    measured = [
        CpuPoint(milli_cpu=limit, micro_steps_per_second=round(rate * 1e6), ci_permille=10)
        for limit, rate in points.items()
    ]
    return WorkloadFacts(gpu_model="H200", cpus=[CpuFact(gpus=gpus, points=measured)])


SCALES = facts({1000: 10, 2000: 20, 4000: 40, 8000: 80})
"""Throughput in proportion to the CPUs."""

FLAT = facts({500: 10, 8000: 10})
"""Throughput that does not depend on the CPUs."""


def dataset_of(size: int) -> Dataset:
    """Return a data set of this size; the storage and the processes are small."""
    return Dataset(size=size, storage_mb_per_s=100, memory_floor=1, bytes_per_step=1)


def tuned(uid: str, milli_cpu: int = 1000, memory: int = GIB, **fields: Any) -> TunedPod:
    """Return a Guaranteed pod with one GPU and these amounts."""
    amounts = Amounts(milli_cpu, memory)
    defaults = {
        "name": uid,
        "mode": ResourcesMode.AUTO,
        "gpus": 1,
        "spec": ContainerAmounts(amounts, milli_cpu, memory),
    }
    return TunedPod(uid, **{**defaults, **fields})


def record(pod: TunedPod, seconds_ago: int = 3600, **fields: Any) -> TunedRecord:
    """Return the record of a resize to the amounts that the pod has now."""
    now = amounts_of(pod)
    since = timestamp(NOW - timedelta(seconds=seconds_ago))
    defaults = {"uid": pod.uid, "floor": now, "last": now, "target": now, "since": since}
    return TunedRecord(**{**defaults, **fields})


def with_record(pod: TunedPod, **fields: Any) -> TunedPod:
    return replace(pod, record=record(pod, **fields))


def tuned_node(
    *pods: TunedPod, milli_cpu: int = 8000, memory: int = 64 * GIB, gpus: int = 4, **fields: Any
) -> TunedNode:
    defaults = {"others": Amounts(0, 0)}
    allocatable = Amounts(milli_cpu, memory)
    return TunedNode(NOW, "node", gpus, allocatable, pods=pods, **{**defaults, **fields})


def carried_out(node: TunedNode, chosen: Mapping[str, Target], seconds: int = 0) -> TunedNode:
    """Return the node after the operator has resized the pods, ``seconds`` later."""
    pods = [_resized(pod, chosen[pod.uid].amounts, node.now) for pod in node.pods]
    return replace(node, pods=pods, now=node.now + timedelta(seconds=seconds))


def _resized(pod: TunedPod, target: Amounts, now: datetime) -> TunedPod:
    if left_alone_because(pod) or target == amounts_of(pod):
        return pod
    before = pod.record or record(pod)
    update = {"floor": floor_of(pod), "target": target, "since": timestamp(now)}
    guaranteed = pod.spec.request.milli_cpu == pod.spec.limit_milli_cpu
    request = Amounts(target.milli_cpu - (0 if guaranteed else 1), target.memory)
    limit_memory = None if pod.spec.limit_memory is None else target.memory
    spec = ContainerAmounts(request, target.milli_cpu, limit_memory)
    return replace(pod, spec=spec, record=before.model_copy(update=update))


@st.composite
def any_facts(draw: st.DrawFn, gpus: int) -> WorkloadFacts:
    """Draw facts with rates in any order, also zero and falling ones."""
    limits = st.integers(1, 12).map(lambda count: count * 500) | st.integers(1, 9000)
    rates = st.sampled_from([0.0, 1.0, 10.0, 10.1]) | st.floats(0, 50)
    points = draw(st.dictionaries(limits, rates, max_size=6))
    return facts(points, draw(st.sampled_from([gpus, gpus, gpus, 8])))


@st.composite
def any_pods(draw: st.DrawFn, uid: str) -> TunedPod:
    """Draw a pod in any state: some cannot be resized, some were resized before."""
    gpus = draw(st.integers(1, 4))
    milli_cpu = draw(st.integers(2, 80).map(lambda count: count * 50) | st.integers(2, 4000))
    memory = draw(st.integers(0, 40)) * GIB + draw(st.integers(0, 2) | st.integers(0, GIB))
    limit = draw(st.sampled_from([milli_cpu, milli_cpu, milli_cpu + 1, milli_cpu + 3000, None]))
    spec = ContainerAmounts(
        Amounts(milli_cpu, memory), limit, draw(st.sampled_from([memory, None]))
    )
    mode = draw(st.sampled_from([*ResourcesMode, ResourcesMode.AUTO, ResourcesMode.AUTO]))
    rare = st.integers(0, 9).map(lambda number: number == 0)
    pod = TunedPod(
        uid,
        name=uid,
        mode=mode,
        gpus=gpus,
        spec=spec,
        most_milli_cpu=draw(st.none() | st.integers(1, 9000)),
        most_memory=draw(st.none() | st.integers(1, 90).map(lambda count: count * GIB)),
        facts=draw(st.none() | any_facts(gpus) | any_facts(gpus)),
        dataset=draw(st.none() | st.builds(Dataset, *[st.integers(1, 90).map(GIB.__mul__)] * 4)),
        measuring=draw(rare),
        own_milli_cpu=draw(st.just(0) | st.integers(0, 5000)),
        obstacle="no limits" if draw(rare) else "",
        state=draw(st.just(ResizeState()) | st.just(ResizeState(allocated=Amounts(3000, 9 * GIB)))),
    )
    return replace(pod, record=draw(st.none() | _records(pod)))


@st.composite
def _records(draw: st.DrawFn, pod: TunedPod) -> TunedRecord:
    now = amounts_of(pod)
    parts = st.sampled_from([0.1, 0.5, 1.0])
    return record(
        pod,
        draw(st.integers(-90, 200)),
        floor=Amounts(int(now.milli_cpu * draw(parts)), int(now.memory * draw(parts))),
        target=draw(st.sampled_from([now, Amounts(now.milli_cpu + 1, now.memory)])),
        pinned=draw(st.integers(0, 9)) == 0,
        least_memory=draw(st.just(0) | st.integers(0, 40 * GIB)),
        most_milli_cpu=draw(st.none() | st.integers(1, 9000)),
        most_memory=draw(st.none() | st.integers(1, 90 * GIB)),
    )


@st.composite
def any_nodes(draw: st.DrawFn) -> TunedNode:
    """Draw a node; its capacity is enough for all floors, for some of them, or for none."""
    pods: Sequence[TunedPod] = [
        draw(any_pods(f"pod-{number}")) for number in range(draw(st.integers(0, 5)))
    ]
    requests = st.builds(Amounts, st.integers(0, 3000), st.integers(0, 20 * GIB))
    return TunedNode(
        NOW,
        "node",
        gpus=draw(st.integers(0, 8)) + draw(st.sampled_from([0, sum(pod.gpus for pod in pods)])),
        allocatable=draw(st.builds(Amounts, st.integers(1, 32000), st.integers(GIB, 300 * GIB))),
        others=draw(st.just(Amounts(0, 0)) | requests),
        pods=pods,
        pending=[
            PendingPod(f"pending-{number}", each)
            for number, each in enumerate(draw(st.lists(requests, max_size=3)))
        ],
    )
