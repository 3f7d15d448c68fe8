"""GPUs of ended pods get their NUMA nodes back when no pod waits for its admission."""

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.report.released import QUIET_SECONDS, ReleasedGpus


def gpus(*names: str) -> frozenset[GpuUuid]:
    return frozenset(map(GpuUuid, names))


def uids(*names: str) -> frozenset[str]:
    return frozenset(names)


def quiet(released: ReleasedGpus, admitted: frozenset[str], used: frozenset[GpuUuid]) -> set[str]:
    """Update five times a second without a waiting pod; return the last result."""
    times = [100.0 + step / 5 for step in range(int(5 * QUIET_SECONDS) + 2)]
    return {*[released.update(admitted, admitted, used, now) for now in times][-1]}


def test_gpus_in_use_are_hidden_and_shown_some_time_after_the_pod_has_gone() -> None:
    released = ReleasedGpus()
    assert released.update(uids("a"), uids("a"), gpus("1"), 0.0) == {"a"}
    assert released.hidden == {"1"}
    assert released.update(uids(), uids(), gpus(), 1.0) == {"a"}, "the scheduler must wait"
    assert released.hidden == {"1"}
    assert quiet(released, uids(), gpus()) == set()
    assert released.hidden == set()


def test_while_a_pod_waits_no_gpu_is_shown_again() -> None:
    released = ReleasedGpus()
    released.update(uids("a"), uids("a"), gpus("1"), 0.0)
    for second in range(5):
        assert released.update(uids(), uids("b"), gpus(), float(second)) == {"a"}
    assert released.hidden == {"1"}
    assert released.update(uids("b"), uids("b"), gpus("2"), 6.0) == {"a", "b"}
    assert released.hidden == {"1", "2"}
    assert quiet(released, uids("b"), gpus("2")) == {"b"}
    assert released.hidden == {"2"}


def test_a_pod_that_waits_again_restarts_the_quiet_time() -> None:
    released = ReleasedGpus()
    released.update(uids("a"), uids("a"), gpus("1"), 0.0)
    released.update(uids(), uids(), gpus(), 1.0)
    released.update(uids(), uids("b"), gpus(), 1.1)
    assert released.update(uids(), uids(), gpus(), 1.0 + 2 * QUIET_SECONDS) == {"a"}


def test_the_time_in_which_the_agent_stood_still_is_not_quiet() -> None:
    released = ReleasedGpus()
    released.update(uids("a"), uids("a"), gpus("1"), 0.0)
    released.update(uids(), uids(), gpus(), 1.0)
    assert released.update(uids(), uids(), gpus(), 60.0) == {"a"}, "the watch may be late too"
    assert released.update(uids(), uids("b"), gpus(), 60.1) == {"a"}
    assert released.hidden == {"1"}


def test_a_gpu_that_becomes_healthy_is_shown_at_once() -> None:
    released = ReleasedGpus()
    released.update(uids(), uids(), gpus("1"), 0.0)
    released.update(uids(), uids(), gpus(), 0.1)
    assert released.hidden == set()
