"""Fault steps: memory that cannot be cut, and a container that runs out of memory after a cut."""

from contextlib import suppress

from resizetest import faultpods, sight
from resizetest.faultpods import PROGRAM_PORT, Worker
from resizetest.sight import Expected
from resizetest.stage import Stage, with_event
from showcase.kubectl import wait_for
from soaktest.client import RejectedError, UnavailableError

_MIB = 2**20
_FREE = 2048 * _MIB
_MISSING = 300 * _MIB
_HELD, _KILLED = 600, 700
_PROFILE = "faults"
_BLOCK, _PENDING, _FIXED = "block", "pending", "fixed"


def held(stage: Stage) -> None:
    """A container has allocated the memory that gputopo cuts."""
    _cannot_cut(stage, "memory-held", "hold")


def cached(stage: Stage) -> None:
    """The memory that gputopo cuts is page cache of a file that the container has written."""
    _cannot_cut(stage, "memory-cached", "file")


def killed(stage: Stage) -> None:
    """A container needs memory after a cut that kubelet has carried out."""
    name, step = "memory-killed", "killed after a cut"
    raised = _raise(stage, name)
    _need_memory(stage)
    cut = Expected(["Resized", "Resized"], "resized from")
    stage.check(f"{step}, the cut", name, cut)
    below = sight.look(stage.bench, name).memory
    if below >= raised:
        stage.bench.finding("promise broken", f"{step}: {below} bytes are not cut from {raised}")
    stage.remove(_PENDING)
    with suppress(UnavailableError, RejectedError):  # the process is killed before it responds
        _hold(stage, name, "hold", _KILLED)
    back = with_event(
        cut,
        "MemoryGivenBack",
        "Resized",
        memory=raised,
        restarts=1,
        record={"least_memory": raised},
    )
    stage.check(step, name, back)
    _need_memory(stage)
    stage.check_stays(f"{step}, needed again", name, back)
    _clean(stage, name)


def _cannot_cut(stage: Stage, name: str, how: str) -> None:
    raised = _raise(stage, name)
    _hold(stage, name, how, _HELD)
    _need_memory(stage)
    kept = Expected(
        ["Resized", "ResizeRejected", "Resized"],  # the last one gives the memory back
        "the cut of memory",
        memory=raised,
        record={"least_memory": raised, "rejected": True},
    )
    stage.check(name, name, kept)
    stage.check_stays(name, name, kept)
    _clean(stage, name)


def _raise(stage: Stage, name: str) -> int:
    """Return the memory limit of a pod that has half of 2 GiB, and later more than its share.

    All free GPUs but two belong to a pod that gputopo does not size, so one GPU of the other two
    has half of the memory. When that pod has ended, the share of one GPU is smaller: an eighth, if
    all GPUs of the node were free.
    """
    client, bench = stage.bench.client, stage.bench
    path = bench.jobs.replace("gpujobs", "gpuprofiles")
    client.create(path, faultpods.profile(_PROFILE))
    stage.fill(_BLOCK, stage.free().memory - _FREE, fits=True)
    stage.start_pod(Worker(_FIXED, stage.node, stage.free_gpus() - 2, 10, sized=False))
    stage.start_pod(Worker(name, stage.node, 1, 50, "128Mi", 300, profile=_PROFILE, holds=True))
    stage.check(f"{name}, raised", name, Expected(["Resized"]))
    raised = sight.look(bench, name).memory
    if raised < _FREE // 3:
        bench.finding("promise broken", f"{name}: raised to {raised} bytes only")
    stage.remove(_FIXED)
    return raised


def _need_memory(stage: Stage) -> None:
    """Create a pod of the default scheduler that fits only if memory is cut."""
    stage.fill(_PENDING, max(0, stage.free().memory) + _MISSING, fits=False)


def _hold(stage: Stage, name: str, how: str, mebibytes: int) -> None:
    path = f"{stage.bench.pods}/{name}:{PROGRAM_PORT}/proxy"
    wait_for("the container serves", lambda: _serves(stage, path))
    stage.bench.client.text(f"{path}/{how}/{mebibytes}")


def _serves(stage: Stage, path: str) -> bool:
    try:
        stage.bench.client.text(f"{path}/hold/0")
    except (UnavailableError, RejectedError):
        return False
    return True


def _clean(stage: Stage, name: str) -> None:
    stage.remove(name, _PENDING, _BLOCK)
    path = stage.bench.jobs.replace("gpujobs", "gpuprofiles")
    stage.bench.client.delete(f"{path}/{_PROFILE}")
