"""Rows of kubelet's behaviour, as worked examples; the property test compares with its code."""

import pytest

from gputopo.alignment.merge import merge_hints
from gputopo.alignment.model import Alignment, Hints, ManagerPolicy, NumaHint, NumaMask, numa_mask

NONE, BEST_EFFORT, RESTRICTED, SINGLE = ManagerPolicy
ALIGNING = (BEST_EFFORT, RESTRICTED, SINGLE)
TWO = numa_mask([0, 1])


def hints(**preferred: bool) -> Hints:
    """Return hints by mask: ``b10=True`` is node 1, preferred."""
    return [NumaHint(NumaMask(int(name[1:], 2)), each) for name, each in preferred.items()]


def test_the_policy_none_has_no_limit_and_rejects_nothing() -> None:
    assert merge_hints(NONE, [[]], TWO) == Alignment(None, admitted=True)


@pytest.mark.parametrize("policy", ALIGNING)
def test_the_lowest_of_equally_good_nodes_is_taken(policy: ManagerPolicy) -> None:
    gpus = hints(b1=True, b10=True, b11=False)
    assert merge_hints(policy, [gpus, None], TWO) == Alignment(NumaMask(0b1), admitted=True)


@pytest.mark.parametrize("policy", ALIGNING)
def test_a_node_that_all_resources_prefer_is_taken(policy: ManagerPolicy) -> None:
    gpus, cpus = hints(b1=True, b10=True, b11=False), hints(b10=True, b11=False)
    assert merge_hints(policy, [gpus, cpus], TWO) == Alignment(NumaMask(0b10), admitted=True)


def test_gpus_of_two_nodes_with_cpus_of_one_are_rejected_on_an_idle_machine() -> None:
    gpus, cpus = hints(b11=True), hints(b1=True, b10=True, b11=False)
    assert not merge_hints(RESTRICTED, [gpus, cpus], TWO).admitted
    assert not merge_hints(SINGLE, [gpus, cpus], TWO).admitted
    assert merge_hints(BEST_EFFORT, [gpus, cpus], TWO) == Alignment(NumaMask(0b11), admitted=True)


def test_without_agreement_the_mask_may_have_fewer_nodes_than_needed() -> None:
    apart = [hints(b1=True), hints(b11=True)]
    assert merge_hints(BEST_EFFORT, apart, TWO) == Alignment(NumaMask(0b1), admitted=True)
    nowhere = [hints(b1=True), hints(b10=True)]
    assert merge_hints(BEST_EFFORT, nowhere, TWO) == Alignment(TWO, admitted=True)


def test_without_agreement_more_nodes_than_needed_are_the_last_choice() -> None:
    four = numa_mask(range(4))
    wide = [hints(b1111=False), hints(b1111=False, b11=False), []]
    assert merge_hints(BEST_EFFORT, wide, four) == Alignment(four, admitted=True)
    smaller = [hints(b1110=False, b1=False), hints(b1111=True)]
    assert merge_hints(BEST_EFFORT, smaller, four) == Alignment(NumaMask(0b1110), admitted=True)


def test_a_resource_that_fits_nowhere_is_rejected() -> None:
    for policy in (RESTRICTED, SINGLE):
        assert not merge_hints(policy, [hints(b1=True), []], TWO).admitted
    assert merge_hints(BEST_EFFORT, [hints(b1=True), []], TWO).admitted


def test_a_machine_with_one_node_has_no_limit_under_single_numa_node() -> None:
    one = numa_mask([0])
    assert merge_hints(SINGLE, [hints(b1=True)], one) == Alignment(None, admitted=True)
    assert merge_hints(RESTRICTED, [hints(b1=True)], one) == Alignment(one, admitted=True)


@pytest.mark.parametrize("policy", ALIGNING)
def test_without_any_preference_all_nodes_are_allowed(policy: ManagerPolicy) -> None:
    expected = None if policy is SINGLE else TWO
    assert merge_hints(policy, [None, None], TWO) == Alignment(expected, admitted=True)
