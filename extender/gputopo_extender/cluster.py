"""The API server, through lightkube: what bind asks of it, and how its answers are understood.

Pods and topologies travel as plain dicts (lightkube's generic resources) and are trimmed at
once, so that no typed models stay in memory.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import msgspec
from lightkube import AsyncClient
from lightkube.core.exceptions import ConfigError
from lightkube.core.resource import ApiInfo, NamespacedSubResource, ResourceDef
from lightkube.generic_resource import Generic as Document
from lightkube.generic_resource import GenericNamespacedResource, create_api_info
from lightkube.types import PatchType

from gputopo.api.names import CALLED_OFF_ANNOTATION
from gputopo.errors import GputopoError
from gputopo_extender.state.decision import Decision
from gputopo_kube.pods import PodView, parse_gpu_pod


class PodDocument(GenericNamespacedResource):
    """A pod as a dict; the registry's own class would decode all of it into models."""

    _api_info = create_api_info("", "v1", "Pod", "pods")


class BindingDocument(NamespacedSubResource, Document):  # type: ignore[misc]
    """A Binding as a dict; the API server answers it with a Status, not with a Binding."""

    _api_info = ApiInfo(
        resource=ResourceDef("", "v1", "Binding"),
        parent=ResourceDef("", "v1", "Pod"),
        plural="pods",
        verbs=["post"],
        action="binding",
    )


class PodStatusDocument(NamespacedSubResource, Document):  # type: ignore[misc]
    """The status of a pod as a dict, and its metadata, which the server lets through."""

    _api_info = ApiInfo(
        resource=ResourceDef("", "v1", "Pod"),
        parent=ResourceDef("", "v1", "Pod"),
        plural="pods",
        verbs=["patch"],
        action="status",
    )


class RefusedError(GputopoError):
    """The API server said no: nothing was changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"API server: {status}: {message}")
        self.status = status


class UnansweredError(GputopoError):
    """No answer, or one that does not tell whether the request was carried out."""


class Cluster:
    """What bind asks of the API server."""

    def __init__(self, client: AsyncClient, resource: str, timeout_seconds: float) -> None:
        """Use ``client``; ``resource`` counts GPUs; no call takes longer than the time-out."""
        self._client = client
        self._resource = resource
        self._timeout_seconds = timeout_seconds

    async def pod(self, namespace: str, name: str) -> PodView | None:
        """Return the pod as it is now; None where there is none or it asks for no GPU.

        Raises:
            RefusedError, UnansweredError: where that could not be found out.
        """
        return await self._found(self._client.get(PodDocument, name, namespace=namespace))

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        """Make every Binding of the pod that is under way fail; return the pod as it is then.

        A Binding is conditioned on the version of the pod that was read before it, so any
        change to the pod that comes first calls it off.

        Raises:
            RefusedError, UnansweredError: where it may still be carried out.
        """
        mark = {"metadata": {"annotations": {CALLED_OFF_ANNOTATION: str(uuid.uuid4())}}}
        return await self._found(
            self._client.patch(
                PodStatusDocument, name, mark, namespace=namespace, patch_type=PatchType.MERGE
            )
        )

    async def bind(self, decision: Decision) -> None:
        """Write node and GPUs of a decision in one Binding.

        Raises:
            RefusedError: it was not carried out (409: or it had been before, or the pod has
                changed since it was read).
            UnansweredError: it may have been carried out.
        """
        binding = BindingDocument.from_dict(
            {
                "metadata": {
                    "name": decision.name,
                    "namespace": decision.namespace,
                    "uid": decision.uid,
                    "resourceVersion": decision.version,
                    "annotations": dict(decision.annotations),
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
            }
        )
        async with in_time(self._timeout_seconds):
            await self._client.create(binding, decision.name, namespace=decision.namespace)

    async def _found(self, answer: Awaitable[Mapping[str, Any]]) -> PodView | None:
        try:
            async with in_time(self._timeout_seconds):
                document = await answer
        except RefusedError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return None
            raise
        return parse_gpu_pod(document, self._resource)


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """Turn what goes wrong, a missing answer included, into refused or unanswered."""
    try:
        async with asyncio.timeout(seconds):
            with translated():
                yield
    except TimeoutError:
        raise UnansweredError(f"API server: no answer within {seconds} s") from None


@contextmanager
def translated() -> Iterator[None]:
    """Turn what lightkube raises into refused or unanswered."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise _of_status(error) from error
    except httpx2.HTTPError as error:
        raise UnansweredError(f"API server: {type(error).__name__}: {error}") from error
    except (msgspec.MsgspecError, KeyError) as error:
        # A proxy's answer may lack what lightkube looks for, as Content-Type.
        reason = f"{type(error).__name__}: {error}"
        raise UnansweredError(f"API server: unreadable answer: {reason}") from error
    except ConfigError as error:
        raise UnansweredError(f"API server: not asked: {error}") from error


def _of_status(error: httpx2.HTTPStatusError) -> RefusedError | UnansweredError:
    # An error inside a watch stream has no response of its own, only a Status.
    code = getattr(getattr(error, "status", None), "code", None)
    if error.response is not None:
        code = error.response.status_code
    # httpx2 goes on with a link to an explanation of the code.
    message = str(error).partition("\n")[0]
    late = code == httpx2.codes.REQUEST_TIMEOUT  # a proxy says so after it has passed it on
    if code is not None and httpx2.codes.is_client_error(code) and not late:
        return RefusedError(code, message)
    return UnansweredError(f"API server: {code}: {message}")
