"""The proportional mechanism."""

from gputopo.sizing.model import ServerCapacity, SizingRequest
from gputopo.sizing.proportional import proportional
from support.sizing import matrix


def small_request(job: str, gpus: int) -> SizingRequest:
    return SizingRequest(job, matrix(gpus, [1], [1], [1]))


def test_job_gets_its_share_even_if_it_needs_less() -> None:
    result = proportional([ServerCapacity("s1", 8, 24, 500)], [small_request("j", 2)])
    assert [each.parts for each in result.assignments] == [(("s1", 2, 6, 125, 0),)]


def test_used_servers_are_filled_first() -> None:
    servers = [ServerCapacity("s1", 8, 24, 500), ServerCapacity("s2", 8, 24, 500)]
    requests = [small_request("one", 1), small_request("six", 6), small_request("seven", 7)]
    result = proportional(servers, requests)
    assert {each.job: [part.server for part in each.parts] for each in result.assignments} == {
        "one": ["s1"],
        "six": ["s2"],
        "seven": ["s1"],
    }
