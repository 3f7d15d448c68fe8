"""Requests to the API server: their errors, and their end where the API server is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import httpx2
import msgspec
from lightkube.core.exceptions import ConfigError

from gputopo.errors import GputopoError
from gputopo_kube.podmodel import PodError


class ApiServerError(GputopoError):
    """The API server refused (``status`` says how) or did not answer (None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(f"API server: {message}")
        self.status = status


class Requests:
    """The requests that wait for an answer."""

    def __init__(self, on_answer: Callable[[], None]) -> None:
        """Call ``on_answer`` after each request that succeeded."""
        self._on_answer = on_answer
        self._waiting: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Translate the errors of one request."""
        try:
            async with asyncio.timeout(None) as scope:
                self._waiting.add(scope)
                try:
                    with translated():
                        yield
                finally:
                    self._waiting.discard(scope)
        except TimeoutError:
            raise ApiServerError("lost while the request waited for its answer") from None
        self._on_answer()

    def abandon(self) -> None:
        """Fail all of them now."""
        waiting, self._waiting = self._waiting, set()
        for scope in waiting:
            scope.reschedule(asyncio.get_running_loop().time())


@contextmanager
def translated() -> Iterator[None]:
    """Raise ``ApiServerError`` for all that lightkube raises."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        # An error inside a watch stream has no response of its own, only a Status.
        code = getattr(getattr(error, "status", None), "code", None)
        if error.response is not None:
            code = error.response.status_code
        raise ApiServerError(f"{code}: {error}", code) from error
    except httpx2.HTTPError as error:
        raise ApiServerError(f"{type(error).__name__}: {error}") from error
    except KeyError as error:
        # lightkube looks for the Content-Type of every error, which a proxy's answer may lack.
        raise _without(error) from error
    except (msgspec.MsgspecError, PodError) as error:
        raise ApiServerError(f"unreadable answer: {error}") from error
    except ConfigError as error:
        raise ApiServerError(f"request not sent: {error}") from error


def _without(missing: KeyError) -> ApiServerError:
    answer = missing.__context__
    if isinstance(answer, httpx2.HTTPStatusError):
        code = answer.response.status_code
        return ApiServerError(f"{code}: the answer has no {missing}", code)
    return ApiServerError(f"unreadable answer: {missing} is missing")
