"""How many CPUs of a node a pod may be measured with."""

from dataclasses import replace

import pytest

from gputopo.api.tuning import ResourcesMode
from gputopo.tuning.measured import cpus_to_measure
from gputopo.tuning.model import TunedPod
from support.tuning.nodes import tuned, tuned_node


@pytest.mark.parametrize("measuring", [True, False])
def test_pods_that_are_measured_at_the_same_time_leave_each_other_their_shares(
    measuring: bool,  # noqa: FBT001 - of pytest
) -> None:
    pods = [tuned("a", 500, measuring=measuring), tuned("b", 500, measuring=True)]
    assert cpus_to_measure(tuned_node(*pods), "a") == (2000, 1500)


def test_nothing_is_kept_for_a_pod_with_more_than_its_share() -> None:
    pods = [tuned("a", 500), tuned("b", 4000, measuring=True)]
    assert cpus_to_measure(tuned_node(*pods), "a") == (2000, 0)


def test_maximum_of_the_user_limits_the_share() -> None:
    limited = tuned("a", 500, most_milli_cpu=1200)
    assert cpus_to_measure(tuned_node(limited), "a").share == 1200


@pytest.mark.parametrize(
    "pod",
    [
        tuned("a", 500, obstacle="the restart policy"),
        replace(tuned("a", 500), mode=ResourcesMode.FIXED),
        tuned("another", 500),
    ],
)
def test_pod_that_gputopo_does_not_size_has_no_share(pod: TunedPod) -> None:
    assert cpus_to_measure(tuned_node(pod), "a") == (0, 0)
