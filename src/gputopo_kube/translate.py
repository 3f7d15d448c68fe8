"""Translates the errors of lightkube into ``ApiError``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import msgspec
from lightkube.core.exceptions import ConfigError

from gputopo.errors import InvalidInputError
from gputopo_kube.errors import ApiError, UnavailableError, error_of_status


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of lightkube, and errors of parsing a response, into ``ApiError``."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise _of_status_error(error) from error
    except httpx2.HTTPError as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error
    except KeyError as error:
        raise _of_missing_key(error) from error
    except (msgspec.MsgspecError, json.JSONDecodeError, InvalidInputError) as error:
        raise UnavailableError(f"unreadable response: {type(error).__name__}: {error}") from error
    except ConfigError as error:
        raise UnavailableError(f"request not sent: {error}") from error


def _of_status_error(error: httpx2.HTTPStatusError) -> ApiError:
    # httpx2 appends a line with a link to an explanation of the status.
    message = str(error).partition("\n")[0]
    # An error inside a watch stream has no response, only a Status object.
    status = getattr(getattr(error, "status", None), "code", None)
    if error.response is not None:
        status = error.response.status_code
    return UnavailableError(message) if status is None else error_of_status(status, message)


def _of_missing_key(error: KeyError) -> UnavailableError:
    # lightkube requires a Content-Type in every error response; a proxy's response may lack it.
    failed = error.__context__
    if isinstance(failed, httpx2.HTTPStatusError):
        return UnavailableError(f"the response has no header {error}", failed.response.status_code)
    return UnavailableError(f"unreadable response: {error} is missing")
