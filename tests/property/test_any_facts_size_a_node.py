"""Any facts and data sets give targets, from a matrix with few cells."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputopo.api.profile import CpuFact, CpuPoint, WorkloadFacts
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import SizingMechanism
from gputopo.sizing.tune import tune
from gputopo.tuning.decide import next_steps
from gputopo.tuning.model import Dataset, TunedPod
from gputopo.tuning.sized import sized_node
from gputopo.tuning.targets import targets
from support.property_settings import fuzzed
from support.tuning.nodes import GIB, facts, tuned, tuned_node

MOST_ROWS = 101 + 64 + 3  # steps, measured points, and the amounts of the pod
MOST_COLUMNS = 17 + 3

INT64 = st.integers(1, 9000) | st.integers(1, 2**63 - 1) | st.sampled_from([1, 2**53, 2**63 - 1])
RATES = st.integers(0, 2**63 - 1) | st.integers(0, 100).map(lambda rate: rate * 10**6)
BYTES = INT64 | st.integers(1, 90).map(GIB.__mul__) | st.sampled_from([0, 10**32, 10**29 * 2**40])

POINTS = st.builds(
    CpuPoint.model_construct, milli_cpu=INT64, micro_steps_per_second=RATES, ci_permille=st.just(3)
)
FACTS = st.lists(POINTS, max_size=64).map(
    lambda points: WorkloadFacts(gpu_model="H200", cpus=[CpuFact(gpus=1, points=points)])
)
DATASETS = st.builds(
    Dataset, size=BYTES, storage_mb_per_s=INT64, memory_floor=BYTES, bytes_per_step=INT64
)


@st.composite
def any_pods(draw: st.DrawFn, uid: str) -> TunedPod:
    milli_cpu, memory = draw(st.integers(1, 4000)), draw(st.integers(1, 20 * GIB))
    return tuned(uid, milli_cpu, memory, facts=draw(FACTS), dataset=draw(st.none() | DATASETS))


HIGH_LIMIT = tuned("a", facts=facts({1000: 1, 10**10: 2}))
EQUAL_LEVELS = tuned(
    "b",
    facts=facts({1000: 1, 4000: 2}),
    dataset=Dataset(
        size=GIB, storage_mb_per_s=1, memory_floor=(10**23 - 1) * GIB, bytes_per_step=1
    ),
)


@pytest.mark.parametrize("mechanism", [marginal, tune])
@fuzzed
@given(pods=st.tuples(any_pods("a"), any_pods("b")))
@example(pods=(HIGH_LIMIT, EQUAL_LEVELS))
def test_any_facts_and_data_sets_give_targets_from_few_cells(
    mechanism: SizingMechanism, pods: tuple[TunedPod, ...]
) -> None:
    node = tuned_node(*pods)
    chosen = targets(node, mechanism)
    assert set(chosen) == {pod.uid for pod in pods}
    next_steps(node, chosen)
    for pod in sized_node(node).pods:
        if pod.matrix is not None:
            assert len(pod.matrix.cpus) <= MOST_ROWS
            assert len(pod.matrix.memory_gb) <= MOST_COLUMNS
