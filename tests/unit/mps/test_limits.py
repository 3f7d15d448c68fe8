"""The GPU memory of processes and pods."""

from gputopo.api.shares import SERVER_BYTES
from gputopo_mps.limits import Excess, MemoryLimits

GIB = 1 << 30


def limits(**declared: int | None) -> MemoryLimits:
    return MemoryLimits(12 * GIB + SERVER_BYTES, 3, declared)


def test_a_process_has_an_equal_part_or_what_the_largest_pod_declares() -> None:
    assert limits().of_process == 4 * GIB
    assert limits(a=None, b=GIB).of_process == 4 * GIB
    assert limits(a=None, b=6 * GIB).of_process == 6 * GIB
    assert limits(a=100 * GIB).of_process == 12 * GIB, "no more than the GPU has"


def test_the_processes_of_a_pod_count_together() -> None:
    used = [("a", 3 * GIB), ("b", GIB), ("a", 2 * GIB), (None, 9 * GIB), ("c", 4 * GIB)]
    found = limits(a=None, b=GIB, c=None).exceeded(used)
    assert found == [Excess("a", 5 * GIB, 4 * GIB)]
    assert limits(a=5 * GIB).exceeded([("a", 5 * GIB)]) == []
