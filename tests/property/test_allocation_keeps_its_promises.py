"""Whatever the cluster, the jobs and their order: no server gives more than it has, and where
shares are promised no job runs slower than with its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocations import check_books, check_promises, clusters, queues
from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS

ANY_CLUSTER = st.one_of(clusters(alike=True), clusters(alike=False))


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, requests=queues())
def test_no_server_gives_more_than_it_has(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> None:
    check_books(servers, requests, MECHANISMS[name](servers, requests))


@pytest.mark.parametrize("name", sorted(GUARANTEE_SHARES))
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, requests=queues(), data=st.data())
def test_all_run_whose_turn_it_is_and_none_slower_than_with_its_share_in_any_order(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest], data: st.DataObject
) -> None:
    for order in (requests, data.draw(st.permutations(requests))):
        check_promises(servers, order, MECHANISMS[name](servers, order))


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=30)
@given(servers=ANY_CLUSTER, requests=queues())
def test_the_same_input_has_the_same_outcome_and_is_left_alone(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> None:
    before = list(servers), list(requests)
    assert MECHANISMS[name](servers, requests) == MECHANISMS[name](servers, requests)
    assert (servers, requests) == before
