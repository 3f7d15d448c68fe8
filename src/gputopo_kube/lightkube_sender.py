"""Sends the operator's requests through the HTTP client of lightkube."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx2

from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.translate import translated

_MOST_REPEATS: Final = 3
_LONGEST_WAIT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class LightkubeSender:
    """Sends requests with the HTTP client of lightkube. Several threads may use one instance."""

    client: httpx2.Client
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response, also if its status is an error.

        If the response to a GET has ``Retry-After`` in seconds, wait and repeat the GET, at most 3
        times. Requests of other methods are never repeated.

        Raises:
            UnavailableError: if there is no response.
        """
        repeats_left = _MOST_REPEATS
        while True:
            with translated():
                response = self.client.request(
                    request.method,
                    request.path,
                    params=request.query,
                    json=request.body,
                    headers=request.headers,
                )
            wait = response.headers.get("Retry-After", "")
            if request.method != "GET" or not wait.isdecimal() or not repeats_left:
                return HttpResponse(response.status_code, response.reason_phrase, response.content)
            repeats_left -= 1
            self.sleep(min(int(wait), _LONGEST_WAIT_SECONDS))
