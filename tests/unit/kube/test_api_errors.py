"""Which error each failure of a request becomes."""

import json

import httpx2
import msgspec
import pytest
from lightkube.core.exceptions import ApiError as LightkubeError
from lightkube.core.exceptions import ConfigError
from lightkube.models.meta_v1 import Status

from gputopo_kube.errors import (
    ApiError,
    ConflictError,
    DeniedError,
    NotFoundError,
    RejectedError,
    UnavailableError,
    error_of_status,
)
from gputopo_kube.translate import translated

REQUEST = httpx2.Request("POST", "http://api/pods")


def status_error(status: int, message: str = "no") -> httpx2.HTTPStatusError:
    return httpx2.HTTPStatusError(
        message, request=REQUEST, response=httpx2.Response(status, request=REQUEST)
    )


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, DeniedError),
        (403, DeniedError),
        (404, NotFoundError),
        (408, UnavailableError),
        (409, ConflictError),
        (410, RejectedError),
        (413, DeniedError),
        (422, DeniedError),
        (429, RejectedError),
        (500, UnavailableError),
        (502, UnavailableError),
        (504, UnavailableError),
    ],
)
def test_only_a_4xx_status_of_the_server_says_that_nothing_changed(
    status: int, error: type[ApiError]
) -> None:
    assert type(error_of_status(status, "no")) is error
    with pytest.raises(error) as caught, translated():
        raise status_error(status)
    assert type(caught.value) is error
    assert caught.value.status == status
    assert caught.value.message == "no"
    assert str(caught.value) == f"API server: {status}: no"


def test_the_link_that_httpx2_appends_is_dropped() -> None:
    with pytest.raises(RejectedError) as caught, translated():
        raise status_error(403, "Forbidden for url\nFor more information check: https://x")
    assert caught.value.message == "Forbidden for url"


def test_an_error_event_of_a_watch_has_its_status() -> None:
    with pytest.raises(RejectedError, match="too old") as caught, translated():
        raise LightkubeError(status=Status(code=410, message="too old"))
    assert caught.value.status == 410


def test_an_error_event_without_a_status_leaves_the_request_open() -> None:
    with pytest.raises(UnavailableError) as caught, translated():
        raise LightkubeError(status=Status(message="etcd"))
    assert caught.value.status is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (httpx2.ConnectError("refused"), "API server: ConnectError: refused"),
        (httpx2.ReadTimeout("late"), "API server: ReadTimeout: late"),
        (KeyError("metadata"), "API server: unreadable response: 'metadata' is missing"),
        (msgspec.ValidationError("no list"), "unreadable response: ValidationError: no list"),
        (json.JSONDecodeError("bad", "<html>", 0), "unreadable response: JSONDecodeError: bad"),
        (ConfigError("no token"), "API server: request not sent: no token"),
    ],
)
def test_a_request_without_a_readable_response_may_have_been_carried_out(
    error: Exception, text: str
) -> None:
    with pytest.raises(UnavailableError) as caught, translated():
        raise error
    assert text in str(caught.value)
    assert caught.value.status is None


def test_a_proxy_without_a_content_type_leaves_the_request_open() -> None:
    def fail() -> None:
        try:
            raise status_error(403)
        except httpx2.HTTPStatusError as error:
            # As lightkube does.
            error.response.headers["Content-Type"]

    with pytest.raises(UnavailableError, match="403: the response has no") as caught, translated():
        fail()
    assert caught.value.status == 403


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError
