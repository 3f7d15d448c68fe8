"""A run can start with GPUs in use: they become free at their time, or never."""

from math import inf

import pytest

from gputopo.catalogue import named
from gputopo.patterns.model import PatternKind, build
from gputopo.topology.model import GpuMask, mask_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import FinishedSimulatedJob, GpusInUse, Queueing, SimulatedJob
from gputopo_simulate.mapa.run import MapaSettings, run

NODES = {name: named("dgx1-v100", node=name) for name in ("n1", "n2")}
ALL = GpuMask(0b11111111)


def job(name: str, gpus: int, arrival: float = 0) -> SimulatedJob:
    return SimulatedJob(name, build(PatternKind.RING, gpus), arrival, 10, sensitive=gpus > 1)


def finished(
    *jobs: SimulatedJob, in_use: list[GpusInUse], queueing: Queueing = Queueing.FIFO
) -> dict[object, FinishedSimulatedJob]:
    result = run(NODES, jobs, MapaSettings(queueing=queueing), in_use=in_use)
    return {each.job.id: each for each in result.jobs}


def test_job_waits_until_gpus_in_use_become_free() -> None:
    uses = [GpusInUse("n1", ALL, 100), GpusInUse("n2", mask_of(NODES["n2"].index_of.values()), 50)]
    found = finished(job("a", 8), job("b", 8), in_use=uses)
    assert (found["a"].node, found["a"].start) == ("n2", 50)
    assert (found["b"].node, found["b"].start) == ("n2", 60)


def test_gpus_that_are_never_free_are_not_used() -> None:
    uses = [GpusInUse("n1", ALL, inf), GpusInUse("n2", GpuMask(0b1111), inf)]
    found = finished(job("a", 4), job("b", 4), in_use=uses)
    assert {*found["a"].gpus} == {*found["b"].gpus} == {4, 5, 6, 7}
    assert (found["b"].start, found["b"].node) == (10, "n2")
    with pytest.raises(SimulationError, match=r"job 'big': fits on no node: needs 5 GPUs, "):
        finished(job("big", 5), in_use=uses)


def test_two_uses_of_a_node_end_at_their_own_times() -> None:
    uses = [
        GpusInUse("n1", ALL, inf),
        GpusInUse("n2", GpuMask(0b1111), 30),
        GpusInUse("n2", GpuMask(0b11110000), 20),
    ]
    found = finished(job("a", 4), job("b", 8), in_use=uses)
    assert ({*found["a"].gpus}, found["a"].start) == ({4, 5, 6, 7}, 20)
    assert found["b"].start == 30


def test_job_that_fits_may_start_before_gpus_become_free() -> None:
    uses = [GpusInUse("n1", ALL, inf), GpusInUse("n2", GpuMask(0b1), 15)]
    jobs = (job("big", 8), job("small", 2))
    assert finished(*jobs, in_use=uses)["small"].start == 25
    overtaken = finished(*jobs, in_use=uses, queueing=Queueing.SKIP_AHEAD)
    assert (overtaken["small"].start, overtaken["big"].start) == (0, 15)
