"""The client of the component that runs MPS on the node, over its unix socket."""

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from gputopo.api.model import ApiModel
from gputopo.errors import GputopoError
from gputopo.runtime.messages import first_error
from gputopo.topology.model import GpuUuid
from gputopo_kube.local_http import LocalHttpClient, LocalHttpError

_LONGEST_REASON: Final = 300
_OK: Final = 200
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


class MpsError(GputopoError):
    """The component does not respond, or MPS cannot serve the GPU; the message says why."""


class MpsUnavailableError(MpsError):
    """The component does not respond; it may respond again soon, for example after a restart."""


class MpsFaultError(MpsError):
    """A client has caused a fatal fault on the GPU, which takes no clients until it is over."""


class PodAboveMemory(ApiModel):
    """A pod whose processes together use more memory of their GPU than the pod may have."""

    pod: Annotated[str, Field(alias="podUID")]
    used_bytes: int
    limit_bytes: int


class MpsGpu(ApiModel):
    """A GPU with an MPS daemon.

    Attributes:
        reason: why the daemon takes no clients; empty if it does.
        pipe_directory: the daemon's pipe directory on the host.
        shm_directory: what its clients must have as ``/dev/shm``, on the host.
    """

    uuid: GpuUuid
    state: Literal["Starting", "Ready", "Fault", "Stopping", "Failed"]
    reason: str | None = None
    pipe_directory: Path
    shm_directory: Path
    pods_above_memory: tuple[PodAboveMemory, ...] = ()

    @property
    def fault(self) -> str | None:
        """Why the GPU takes no further clients; None if it does."""
        if self.state == "Ready":
            return None
        reason = f": {_text(self.reason)}" if self.reason else ""
        return f"MPS is in state {self.state}{reason}"


class SharedGpuFault(ApiModel):
    """A fatal fault on a shared GPU, which ended all its clients.

    Attributes:
        cause: UID of the pod whose client caused the fault; None if it is unknown.
        pods: UIDs of all pods whose clients ended.
    """

    id: str
    uuid: GpuUuid
    cause: Annotated[str | None, Field(alias="causePodUID")] = None
    pods: Annotated[list[str], Field(alias="podUIDs")]
    message: str


class _Conflict(ApiModel):
    """Why the component did not do what was requested."""

    reason: str


class MpsState(ApiModel):
    """The GPUs with daemons, and the faults that were not acknowledged yet."""

    gpus: list[MpsGpu]
    faults: list[SharedGpuFault]


_Parsed = TypeVar("_Parsed", bound=ApiModel)


class MpsConnection:
    """Sends requests to the component; each has a time limit."""

    def __init__(self, socket: Path, *, timeout_seconds: float) -> None:
        """Connect to ``socket`` for each request."""
        self._http = LocalHttpClient(socket, timeout_seconds=timeout_seconds)

    async def start(self, gpu: GpuUuid) -> MpsGpu:
        """Start the daemon of a GPU, and wait until it takes clients.

        Raises:
            MpsError: the daemon does not take clients.
        """
        found = _parse(MpsGpu, await self._request("PUT", f"/gpus/{gpu}"))
        if found.fault is not None:
            raise MpsFaultError(found.fault) if found.state == "Fault" else MpsError(found.fault)
        return found

    async def stop(self, gpu: GpuUuid) -> None:
        """End the daemon of a GPU that no pod shares.

        Raises:
            MpsError: the daemon still has clients, or does not end.
        """
        await self._request("DELETE", f"/gpus/{gpu}")

    async def state(self) -> MpsState:
        """Return the GPUs with daemons, and the faults.

        Raises:
            MpsError: the component does not respond.
        """
        return _parse(MpsState, await self._request("GET", "/gpus"))

    async def acknowledge(self, fault: SharedGpuFault) -> None:
        """Delete a fault that was reported; do nothing if it does not exist any more.

        Raises:
            MpsError: the component does not respond.
        """
        await self._request("DELETE", f"/faults/{fault.id}", ignored=_NOT_FOUND)

    async def _request(self, method: str, path: str, *, ignored: int | None = None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the JSON body of the response; None if its status is ``ignored``."""
        try:
            response = await self._http.request(method, path)
            if response.status == ignored:
                return None
            if response.status not in {_OK, _CONFLICT}:
                raise _unavailable(f"status {response.status}")
            document = json.loads(response.body)
        except (LocalHttpError, ValueError) as error:
            raise _unavailable(_text(error)) from None
        if response.status == _CONFLICT:
            raise MpsError(_text(_parse(_Conflict, document).reason))
        return document


def _unavailable(reason: str) -> MpsUnavailableError:
    return MpsUnavailableError(f"the MPS component does not respond: {reason}")


def _parse(model: type[_Parsed], document: object) -> _Parsed:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise MpsError(f"the MPS component: {first_error(error)}") from None


def _text(reason: object) -> str:
    return " ".join(str(reason).split())[:_LONGEST_REASON] or type(reason).__name__
