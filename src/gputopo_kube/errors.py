"""The errors of requests to the API server."""

from http import HTTPStatus

from gputopo.errors import GputopoError


class ApiError(GputopoError):
    """A request to the API server failed: the server rejected it, or its result is unknown.

    Attributes:
        message: the reason, without the status.
        status: the HTTP status; None if there was no response.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        code = "" if status is None else f"{status}: "
        super().__init__(f"API server: {code}{message}")
        self.message = message
        self.status = status


class RejectedError(ApiError):
    """The API server rejected the request, which therefore changed nothing."""


class DeniedError(RejectedError):
    """The request is forbidden or its object is invalid, so an immediate retry fails too."""


class NotFoundError(RejectedError):
    """The object does not exist."""


class ConflictError(RejectedError):
    """The object exists already, or another client changed it after the caller read it."""


class AlreadyExistsError(ConflictError):
    """An object of this name exists already."""


class UnavailableError(ApiError):
    """There is no response, or the response does not show whether the request was carried out.

    The API server may have carried out a write request, or may still carry it out later.
    """


class CredentialsError(GputopoError):
    """The address or the credentials of the API server are missing or not supported."""


def error_of_status(status: int, message: str, reason: str = "") -> ApiError:
    """Return the error for a response with this HTTP status, and the reason in its Status object.

    >>> type(error_of_status(409, "object was modified")).__name__
    'ConflictError'
    >>> type(error_of_status(503, "shutting down")).__name__
    'UnavailableError'
    """
    match status:
        case HTTPStatus.NOT_FOUND:
            return NotFoundError(message, status)
        case HTTPStatus.CONFLICT:
            exists = reason == "AlreadyExists"
            return (AlreadyExistsError if exists else ConflictError)(message, status)
        case (
            HTTPStatus.BAD_REQUEST
            | HTTPStatus.FORBIDDEN
            | HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            | HTTPStatus.UNPROCESSABLE_ENTITY
        ):
            return DeniedError(message, status)
        case HTTPStatus.REQUEST_TIMEOUT:
            # A proxy can return this status after it has forwarded the request.
            return UnavailableError(message, status)
    rejected = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return (RejectedError if rejected else UnavailableError)(message, status)
