"""Blocking requests: paths, pages and errors."""

import json

import pytest

from gputopo_kube.blocking_http import HttpRequest, HttpResponse
from gputopo_kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from gputopo_kube.sync import SyncApi


def api_of(*responses: tuple[int, object]) -> tuple[SyncApi, list[HttpRequest]]:
    """Return an API with these responses, and the requests that it will have received."""
    remaining, requests = list(responses), []

    def send(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        status, body = remaining.pop(0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return HttpResponse(status, "Reason", data)

    return SyncApi(send, "http://api"), requests


def test_names_are_encoded_in_paths() -> None:
    api, requests = api_of((200, {"kind": "Node"}))
    assert api.get("api", "v1", "nodes", "../a b", limit="1") == {"kind": "Node"}
    assert requests == [HttpRequest("GET", "/api/v1/nodes/..%2Fa%20b", {"limit": "1"}, None)]


def test_a_patch_is_a_merge_patch() -> None:
    api, requests = api_of((200, {}), (201, {}), (200, {}))
    api.request("PATCH", ("apis", "a"), {"x": 1})
    api.request("POST", ("apis", "a"), {"x": 1}, {"fieldValidation": "Strict"})
    api.request("PATCH", ("apis", "a"), {"x": 1}, patch_type="strategic-merge-patch")
    patch, post, strategic = requests
    assert patch.headers["Content-Type"] == "application/merge-patch+json"
    assert post.headers["Content-Type"] == "application/json"
    assert strategic.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert post.query == {"fieldValidation": "Strict"}
    assert post.body == {"x": 1}


def test_an_object_that_does_not_exist_is_none_or_an_error() -> None:
    missing = (404, {"message": "no such Node"})
    api, _ = api_of(missing, missing, (200, {"a": 1}))
    assert api.find("nodes", "n1") is None
    with pytest.raises(NotFoundError, match="404: no such Node"):
        api.get("nodes", "n1")
    assert api.find("nodes", "n1") == {"a": 1}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_object_whose_name_is_a_path_does_not_exist(name: str) -> None:
    """A user writes names into labels; such a path is one of the list or of another kind."""
    api, requests = api_of((200, {"kind": "NodeList", "items": []}))
    assert api.find("api", "v1", "nodes", name) is None
    assert requests == []


def test_a_list_is_read_page_by_page() -> None:
    first = {"metadata": {"continue": "more"}, "items": [{"a": 1}]}
    api, requests = api_of((200, first), (200, {"items": None}), (200, {"items": [{"b": 1}]}))
    assert api.list("pods", selector="x=y", fields="spec.nodeName=n1") == [{"a": 1}]
    assert api.list("pods") == [{"b": 1}]
    assert [request.query for request in requests[1:]] == [
        {
            "limit": "500",
            "labelSelector": "x=y",
            "fieldSelector": "spec.nodeName=n1",
            "continue": "more",
        },
        {"limit": "500"},
    ]


def test_a_page_is_requested_when_the_objects_before_it_are_used() -> None:
    first = {"metadata": {"continue": "more"}, "items": [{"a": 1}]}
    api, requests = api_of((200, first), (200, {"items": [{"b": 1}]}))
    found = api.each("pods", page_size=1)
    assert next(found) == {"a": 1}
    assert [request.query for request in requests] == [{"limit": "1"}]
    assert list(found) == [{"b": 1}]
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (409, {"message": "modified"}, ConflictError, "409: modified"),
        (403, {"message": ""}, RejectedError, "403: Reason"),
        (422, {}, RejectedError, "422: Reason"),
        (500, b"", UnavailableError, "500: Reason"),
        (502, b"<html>\n", UnavailableError, "502: Reason: <html>"),
        (503, b"[]", UnavailableError, "503: Reason: []"),
        (200, b"<html>", UnavailableError, "http://api: GET /nodes: the response is not a JSON"),
        (200, [], UnavailableError, "http://api: GET /nodes: the response is not a JSON object"),
    ],
)
def test_a_failed_request_is_an_error_with_its_reason(
    status: int, body: object, error: type[ApiError], message: str
) -> None:
    api, _ = api_of((status, body))
    with pytest.raises(error) as caught:
        api.get("nodes")
    assert str(caught.value).startswith(f"API server: {message}")


def test_an_error_without_any_text_says_so() -> None:
    api = SyncApi(lambda _: HttpResponse(403, "", b""), "http://api")
    with pytest.raises(RejectedError, match="403: no reason given"):
        api.get("nodes")
