"""Mechanisms never overcommit a server and keep shares, for any cluster, jobs and order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from support.sizing import check_capacity, check_guarantees, clusters, queues

ANY_CLUSTER = st.one_of(clusters(equal=True), clusters(equal=False))


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, requests=queues())
def test_no_server_is_overcommitted(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> None:
    check_capacity(servers, requests, MECHANISMS[name](servers, requests))


@pytest.mark.parametrize("name", sorted(GUARANTEE_SHARES))
@settings(max_examples=60)
@given(servers=ANY_CLUSTER, requests=queues(), data=st.data())
def test_queue_order_decides_who_runs_and_no_job_is_slower_than_with_its_share(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest], data: st.DataObject
) -> None:
    for order in (requests, data.draw(st.permutations(requests))):
        check_guarantees(servers, order, MECHANISMS[name](servers, order))


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=30)
@given(servers=ANY_CLUSTER, requests=queues())
def test_equal_input_has_an_equal_result_and_is_not_changed(
    name: str, servers: list[ServerCapacity], requests: list[SizingRequest]
) -> None:
    before = list(servers), list(requests)
    assert MECHANISMS[name](servers, requests) == MECHANISMS[name](servers, requests)
    assert (servers, requests) == before
