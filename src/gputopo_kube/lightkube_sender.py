"""Sends the operator's requests through the HTTP client of lightkube."""

from dataclasses import dataclass

import httpx2

from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.translate import translated


@dataclass(frozen=True, slots=True)
class LightkubeSender:
    """Sends requests by the HTTP client of lightkube; several threads may use it."""

    client: httpx2.Client

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response, whatever its status.

        Raises:
            UnavailableError: if there is no response.
        """
        with translated():
            response = self.client.request(
                request.method,
                request.path,
                params=request.query,
                json=request.body,
                headers=request.headers,
            )
        return HttpResponse(response.status_code, response.reason_phrase, response.content)
