"""Measured execution times become slowdowns by links and by neighbours."""

import pytest

from gputopo.utility.interference import SlowdownSource, WorkloadKind
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sc17.profiles import JobKind, Sockets, parse_profiles, workload_of
from support.sc17 import profiles, shipped

SOLO = "net,batch,gpus,placement,seconds\n"
BESIDE = "net,batch,gpus,other_net,other_batch,other_gpus,seconds\n"
A1, A2, A3 = (JobKind("bvlc_alexnet", 1, gpus) for gpus in (1, 2, 3))
G4 = JobKind("bvlc_googlenet", 4, 3)


def test_zero_is_not_a_measurement() -> None:
    found = parse_profiles(
        f"{SOLO}a,1,1,intra-socket,10\na,1,1,inter-socket,0\n", f"{BESIDE}a,1,1,a,1,1,0\n"
    )
    assert found.alone == {(JobKind("a", 1, 1), Sockets.ONE): 10}
    assert found.beside == {}


def test_slowdown_by_links_is_that_of_the_authors_machine() -> None:
    assert profiles().ideal(A2) == 127.415
    assert profiles().link_slowdown(A2, Sockets.SEVERAL) == pytest.approx(159.115 / 127.415)
    assert profiles().link_slowdown(A2, Sockets.ONE) == 1
    assert profiles().link_slowdown(A3, Sockets.SEVERAL) == 1  # always on two sockets


def test_ideal_time_is_the_shorter_of_both() -> None:
    kind = JobKind("bvlc_googlenet", 64, 2)  # measured faster on two sockets than on one
    assert profiles().ideal(kind) == 3387.095
    assert profiles().link_slowdown(kind, Sockets.ONE) == pytest.approx(3401.1 / 3387.095)


def test_slowdown_beside_a_neighbour_does_not_contain_that_by_links() -> None:
    found = profiles().slowdowns.slowdown(workload_of(A2), workload_of(A2))
    assert found.value == pytest.approx(167.87 / 159.115)
    assert found.source is SlowdownSource.MEASURED
    alone = profiles().slowdowns.slowdown(workload_of(A1), workload_of(A1))
    assert alone.value == 1  # faster beside a neighbour than alone: an error of measurement


def test_pair_that_was_not_measured_has_the_mean_of_its_batch_sizes() -> None:
    found = profiles().slowdowns.slowdown(workload_of(A2), workload_of(A1))
    assert found.source is SlowdownSource.GROUP
    tiny = [
        found.value
        for (own, other), _ in profiles().beside.items()
        if own.batch == other.batch == 1
        for found in [profiles().slowdowns.slowdown(workload_of(own), workload_of(other))]
    ]
    assert found.value == pytest.approx(sum(tiny) / len(tiny))


def test_worst_slowdown_is_that_of_the_table() -> None:
    assert profiles().slowdowns.worst == pytest.approx(238.18 / 174.455)


def test_group_of_a_workload_is_its_batch_size() -> None:
    assert workload_of(G4) == WorkloadKind("bvlc_googlenet batch 4 on 3", "small")
    assert workload_of(JobKind("net", 32, 1)).group == "batch 32"


def test_kind_that_was_measured_is_returned() -> None:
    assert profiles().require("job 1", "bvlc_alexnet", 1, 2) == A2


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (("caffenet", 1, 1), "job 7: net: 'caffenet' is not one of bvlc_alexnet, bvlc_googlenet"),
        (("bvlc_alexnet", 2, 1), "job 7: batch: 2 is not one of 1, 4, 64, 128"),
        (("bvlc_alexnet", 1, 4), "job 7: gpus: 4 is not one of 1, 2, 3"),
    ],
)
def test_kind_that_was_not_measured_is_rejected(kind: tuple[str, int, int], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        profiles().require("job 7", *kind)


def test_combination_that_was_not_measured_is_rejected() -> None:
    found = parse_profiles(f"{SOLO}a,1,1,intra-socket,10\nb,2,2,intra-socket,9\n", BESIDE)
    with pytest.raises(SimulationError, match="line 3: a with batch 2 on 1 GPUs was not measured"):
        found.require("line 3", "a", 2, 1)


@pytest.mark.parametrize(
    ("solo", "beside", "message"),
    [
        ("a,1,1,nowhere,10\n", "", "solo: line 2, placement: 'nowhere' is not one of intra-socket"),
        ("a,x,1,intra-socket,10\n", "", "solo: line 2, batch: 'x' is not a whole number"),
        ("a,1,1,intra-socket,-1\n", "", "solo: line 2, seconds: '-1' is not in 0"),
        (
            "a,1,1,intra-socket,10\n",
            "b,1,1,a,1,1,5\n",
            "collocation: line 2, net: b with this batch and gpus has no time alone",
        ),
        ("a,1,1,intra-socket,10\n", "a,1,1,a,1,99,5\n", "line 2, other_gpus: '99' is not in"),
    ],
)
def test_invalid_table_is_rejected_with_line_and_column(
    solo: str, beside: str, message: str
) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_profiles(SOLO + solo, BESIDE + beside)


def test_shipped_tables_have_all_measurements() -> None:
    assert len(profiles().alone) == 24 + 8
    assert len(profiles().beside) == shipped("sc17_collocation.csv").count("\n") - 4 - 113
