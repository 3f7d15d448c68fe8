"""Values that are not possible are rejected with field and value."""

from collections.abc import Callable

import pytest

from gputopo.sharing.choice import SharingSettings
from gputopo.sharing.judge import MeasuredJob
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import SharingError, SharingJob, SharingWorkload, StepLoad
from support.sharing import measured, workload

NAN = float("nan")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StepLoad(-1), "occupancy_us: -1; must be a number"),
        (lambda: StepLoad(1, NAN), "dram_us: nan"),
        (lambda: SharingWorkload("a/b", "", 0.0), "steps_per_second: 0.0 of 'a/b'"),
        (lambda: SharingJob("p", workload("a/b"), 1, -1), "max_slowdown_percent: -1 of 'p'"),
        (lambda: measured(("a/b", 1.0)), "workloads: 1; at least two"),
        (lambda: measured(("a/b", 1.0), ("", 1.0)), "workloads: a name is empty"),
        (lambda: measured(("a/b", 1.0), ("a/c", 0.0)), "speeds: 0.0 of 'a/c'"),
        (lambda: measured(("a/b", 1.0), ("a/c", NAN)), "speeds: nan of 'a/c'"),
        (lambda: measured(("a", 1.0), ("b", 1.0), samples=0), "samples: 0; must be at least 1"),
        (lambda: SharingSettings(margin=NAN), "margin: nan"),
        (lambda: SharingSettings(margin=0.9), "margin: 0.9; must be in 1..100"),
        (lambda: SharingSettings(max_jobs=0), "max_jobs: 0"),
        (lambda: LoadCapacity(0), "occupancy capacity: 0"),
        (lambda: LoadCapacity(0.5, NAN), "dram capacity: nan"),
        (lambda: MeasuredJob("p", "a/b", -2.0, 1.0), "solo_rate: -2.0 of 'p'"),
        (lambda: MeasuredJob("p", "a/b", 2.0, NAN), "shared_rate: nan of 'p'"),
    ],
)
def test_impossible_value_is_rejected(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SharingError, match=message):
        build()


def test_fact_is_the_same_in_any_order() -> None:
    one = measured(("t/b", 0.5), ("t/a", 0.75))
    assert one == measured(("t/a", 0.75), ("t/b", 0.5))
    assert (one.workloads, one.speeds) == (("t/a", "t/b"), (0.75, 0.5))


def test_facts_of_one_set_are_merged_by_their_samples() -> None:
    one = measured(("a", 0.5), ("b", 0.8), samples=3)
    merged = one.merged(measured(("b", 0.4), ("a", 0.9)))
    assert (merged.workloads, merged.samples) == (("a", "b"), 4)
    assert merged.speeds == pytest.approx((0.6, 0.7))
    with pytest.raises(SharingError, match=r"workloads: \('a', 'c'\) are not \('a', 'b'\)"):
        one.merged(measured(("a", 1), ("c", 1)))
