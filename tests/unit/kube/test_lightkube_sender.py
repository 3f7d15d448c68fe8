"""Requests that the API server limits are repeated, if they are reads."""

import httpx2

from gputopo_kube.blocking_http import HttpRequest
from gputopo_kube.lightkube_sender import LightkubeSender


def send(method: str, *responses: httpx2.Response) -> tuple[int, list[float], int]:
    """Return the status, the waits and the number of requests."""
    left, waits = list(responses), list[float]()
    transport = httpx2.MockTransport(lambda _: left.pop(0))
    with httpx2.Client(transport=transport, base_url="http://api") as client:
        sender = LightkubeSender(client, waits.append)
        status = sender(HttpRequest(method, "/api", {}, None)).status
    return status, waits, len(responses) - len(left)


def limited(seconds: str = "1") -> httpx2.Response:
    return httpx2.Response(429, headers={"Retry-After": seconds})


def test_a_limited_read_is_repeated_after_the_given_seconds() -> None:
    assert send("GET", limited("2"), limited("3600"), httpx2.Response(200)) == (200, [2, 10], 3)


def test_a_read_is_repeated_three_times_at_most() -> None:
    assert send("GET", *[limited() for _ in range(6)]) == (429, [1, 1, 1], 4)


def test_a_write_and_an_error_without_a_wait_are_not_repeated() -> None:
    assert send("POST", limited(), httpx2.Response(200)) == (429, [], 1)
    assert send("GET", limited("Wed, 21 Oct"), httpx2.Response(200)) == (429, [], 1)
