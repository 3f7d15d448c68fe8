"""Requests to a page that is served on this machine."""

import urllib.error
import urllib.request


def fetch(url: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Return status and text of a response, also of an error."""
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - http
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
