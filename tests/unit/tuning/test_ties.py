"""Among equally good divisions, pods keep what they have."""

from dataclasses import replace

import pytest

from gputopo.api.tuning import Amounts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import SizingMechanism
from gputopo.sizing.tune import tune
from gputopo.tuning.allocate import allocate
from gputopo.tuning.sized import SizedPod
from gputopo.tuning.ties import closest_to_now
from support.sizing import matrix

MECHANISMS = pytest.mark.parametrize("mechanism", [marginal, tune])
GB = 10**9
RISING = matrix(1, range(1, 9), (1e-9,), *([rate] for rate in range(10, 90, 10)))
FLAT = matrix(1, (1, 8), (1e-9,), [10], [10])
STEP = matrix(1, (1, 4), (1e-9,), [10], [50])
"""Throughput does not rise between 1 and 4 CPUs."""
MEMORY = matrix(1, (1,), tuple(range(1, 9)), range(10, 90, 10))


def pod(
    uid: str,
    now: int,
    throughput: SensitivityMatrix | None = RISING,
    *,
    least: int = 1000,
    memory: int = 1,
) -> SizedPod:
    low = Amounts(least, GB)
    most = Amounts(8000, 64 * GB)
    return SizedPod(uid, 1, Amounts(now, memory * GB), low, low, low, most, throughput)


def cpus(division: dict[str, Amounts]) -> dict[str, int]:
    return {uid: amounts.milli_cpu for uid, amounts in division.items()}


def division(pods: list[SizedPod], spare: int, **chosen: int) -> dict[str, int]:
    amounts = {uid: Amounts(milli_cpu, GB) for uid, milli_cpu in chosen.items()}
    return cpus(closest_to_now(Amounts(spare, 0), pods, amounts))


@MECHANISMS
@pytest.mark.parametrize("now", [(5000, 3000), (3000, 5000), (7000, 1000)])
def test_equal_pods_keep_any_division_of_the_node(
    mechanism: SizingMechanism, now: tuple[int, int]
) -> None:
    pods = [pod("a", now[0]), pod("b", now[1])]
    assert cpus(allocate(Amounts(6000, 0), pods, mechanism)) == {"a": now[0], "b": now[1]}


def test_division_with_a_gain_moves_only_what_is_needed_for_it() -> None:
    # c needs 4 CPUs to gain. The mechanism has also exchanged the CPUs of a and b.
    pods = [pod("a", 5000), pod("b", 2000), pod("c", 1000, STEP)]
    assert division(pods, 5000, a=2000, b=2000, c=4000) == {"a": 2000, "b": 2000, "c": 4000}
    pods = [pod("a", 3000), pod("b", 1000), pod("c", 1000, STEP)]
    assert division(pods, 6000, a=1000, b=4000, c=4000) == {"a": 3000, "b": 2000, "c": 4000}


def test_pod_keeps_what_no_other_pod_gains_from() -> None:
    pods = [pod("a", 4000, FLAT), pod("b", 2000)]
    assert division(pods, 6000, a=1000, b=2000) == {"a": 4000, "b": 2000}
    pods = [pod("a", 4000, FLAT), pod("b", 2000)]
    assert division(pods, 5000, a=1000, b=5000) == {"a": 2000, "b": 5000}


def test_exchange_that_lowers_the_values_is_not_made() -> None:
    pods = [pod("a", 2000, STEP), pod("b", 3000, STEP)]
    assert division(pods, 3000, a=4000, b=1000) == {"a": 4000, "b": 1000}


def test_amounts_stay_within_the_bounds_of_a_pod() -> None:
    pods = [pod("a", 9000, FLAT), pod("b", 500, FLAT)]
    assert division(pods, 10_000, a=1000, b=1000) == {"a": 8000, "b": 1000}


def test_current_division_that_does_not_fit_is_not_kept() -> None:
    pods = [pod("a", 5000), pod("b", 5000)]
    chosen = division(pods, 4000, a=2000, b=4000)
    assert sum(chosen.values()) == 6000


def test_pod_without_a_known_throughput_gets_its_share() -> None:
    pods = [pod("a", 5000, None), pod("b", 1000)]
    assert division(pods, 6000, a=1000, b=7000) == {"a": 1000, "b": 7000}


def test_memory_is_kept_in_the_same_way() -> None:
    pods = [pod("a", 1000, MEMORY, memory=5), pod("b", 1000, MEMORY, memory=3)]
    chosen = {"a": Amounts(1000, 3 * GB), "b": Amounts(1000, 5 * GB)}
    kept = {each.uid: each.now for each in pods}
    assert closest_to_now(Amounts(0, 6 * GB), pods, chosen) == kept
    third = replace(pods[0], uid="c", now=Amounts(1000, GB))
    chosen |= {"c": Amounts(1000, 2 * GB)}
    assert closest_to_now(Amounts(0, 7 * GB), [*pods, third], chosen) == kept | {
        "c": Amounts(1000, 2 * GB)
    }
