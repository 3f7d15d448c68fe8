"""Whatever the cluster, the jobs and their order: no server gives more than it has, and where
shares are promised no job runs slower than with its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocations import check_books, check_promises, clusters, queues
from gputopo.sizing.model import Ask, Server
from gputopo_simulate.synergy.mechanisms import ALLOCATIONS, KEEP_SHARES

ANY_CLUSTER = st.one_of(clusters(alike=True), clusters(alike=False))


@pytest.mark.parametrize("name", ALLOCATIONS)
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, asks=queues())
def test_no_server_gives_more_than_it_has(
    name: str, servers: list[Server], asks: list[Ask]
) -> None:
    check_books(servers, asks, ALLOCATIONS[name](servers, asks))


@pytest.mark.parametrize("name", sorted(KEEP_SHARES))
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, asks=queues(), data=st.data())
def test_all_run_whose_turn_it_is_and_none_slower_than_with_its_share_in_any_order(
    name: str, servers: list[Server], asks: list[Ask], data: st.DataObject
) -> None:
    for order in (asks, data.draw(st.permutations(asks))):
        check_promises(servers, order, ALLOCATIONS[name](servers, order))


@pytest.mark.parametrize("name", ALLOCATIONS)
@settings(max_examples=30)
@given(servers=ANY_CLUSTER, asks=queues())
def test_the_same_input_has_the_same_outcome_and_is_left_alone(
    name: str, servers: list[Server], asks: list[Ask]
) -> None:
    before = list(servers), list(asks)
    assert ALLOCATIONS[name](servers, asks) == ALLOCATIONS[name](servers, asks)
    assert (servers, asks) == before
