"""What the guaranteed amounts leave goes to the pods that gain most from it."""

import pytest

from gputopo.api.tuning import Amounts
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.marginal import marginal
from gputopo.sizing.model import (
    ServerCapacity,
    SizingMechanism,
    SizingRequest,
    SizingResult,
)
from gputopo.sizing.tune import tune
from gputopo.tuning.allocate import allocate
from gputopo.tuning.sized import NOTHING, SizedPod
from support.sizing import matrix

GB = 10**9
MIB = 2**20
MECHANISMS = pytest.mark.parametrize("mechanism", [marginal, tune])
RISING = matrix(1, range(1, 9), (1e-9,), *([rate] for rate in range(10, 90, 10)))
FLAT = matrix(1, (1, 8), (1e-9,), [10], [10])
BOTH = matrix(1, (1, 4), (1, 64), (10, 10), (10, 40))
LEAST = Amounts(2000, GB)
MOST = Amounts(8000, 64 * GB)


def pod(
    uid: str,
    throughput: SensitivityMatrix | None,
    most: Amounts = MOST,
) -> SizedPod:
    return SizedPod(uid, 1, LEAST, LEAST, LEAST, LEAST, most, throughput)


@MECHANISMS
def test_spare_cpus_go_to_the_pod_that_gains(mechanism: SizingMechanism) -> None:
    pods = [pod("a", FLAT), pod("b", RISING), pod("c", None)]
    assert allocate(Amounts(3500, 0), pods, mechanism) == {
        "a": Amounts(2000, GB),
        "b": Amounts(5000, GB),
        "c": Amounts(2000, GB),
    }


@MECHANISMS
@pytest.mark.parametrize("spare", [NOTHING, Amounts(-1, -1), Amounts(999, 10**12)])
def test_pods_keep_their_least_amounts_if_nothing_useful_is_spare(
    mechanism: SizingMechanism, spare: Amounts
) -> None:
    assert allocate(spare, [pod("a", RISING)], mechanism) == {"a": Amounts(2000, GB)}


@MECHANISMS
def test_pod_gets_at_most_its_maximum(mechanism: SizingMechanism) -> None:
    limited = pod("a", RISING, most=Amounts(3999, GB))
    assert allocate(Amounts(8000, 0), [limited], mechanism)["a"].milli_cpu == 3000


@MECHANISMS
def test_memory_is_divided_with_cpus(mechanism: SizingMechanism) -> None:
    spare = Amounts(2000, 63 * GB + MIB)
    assert allocate(spare, [pod("a", BOTH)], mechanism)["a"] == Amounts(4000, 64 * GB)


@MECHANISMS
def test_cpus_that_help_only_with_memory_are_not_given_without_it(
    mechanism: SizingMechanism,
) -> None:
    spare = Amounts(2000, 63 * GB + MIB - 1)
    assert allocate(spare, [pod("a", BOTH)], mechanism)["a"] == Amounts(2000, GB)


def test_large_amounts_of_memory_are_exact() -> None:
    big = 4 * 2**40 + MIB
    high = matrix(1, (1,), (1, big / 1e9), (10, 20))
    spare = Amounts(0, big - GB + MIB)
    most = Amounts(8000, 2 * big)
    assert allocate(spare, [pod("a", high, most=most)], marginal)["a"].memory == big


@MECHANISMS
def test_memory_that_is_not_tuned_stays_exact_beside_much_spare_memory(
    mechanism: SizingMechanism,
) -> None:
    spare = Amounts(3500, 4 * 2**40)
    assert allocate(spare, [pod("a", RISING)], mechanism)["a"] == Amounts(5000, GB)


def test_mechanism_sees_only_what_is_spare_and_the_pods_that_can_gain() -> None:
    seen: list[tuple[ServerCapacity, list[SizingRequest]]] = []

    def recording(servers: list[ServerCapacity], requests: list[SizingRequest]) -> SizingResult:
        seen.append((servers[0], list(requests)))
        return marginal(servers, requests)

    allocate(Amounts(3500, 5 * GB + MIB), [pod("a", FLAT), pod("b", RISING)], recording)  # type: ignore[arg-type]
    [(server, requests)] = seen
    assert (server.cpus, server.memory_gb) == (3.5, 5)
    assert [request.job for request in requests] == ["b"]
    assert requests[0].matrix.cpus[1:] == (1, 2, 3)
    assert requests[0].matrix.throughput == ((20,), (30,), (40,), (50,))


def test_pod_that_makes_no_steps_with_its_share_gets_enough_to_run() -> None:
    high = matrix(1, (4,), (1e-9,), [10])
    assert allocate(Amounts(3000, 0), [pod("a", high)], marginal)["a"].milli_cpu == 4000


def test_without_pods_there_is_nothing_to_divide() -> None:
    assert allocate(Amounts(1000, GB), [], marginal) == {}
