"""The annotation ``gputopo.io/profiling-state``: which CPU limits of a pod were measured.

The operator writes the annotation before it changes the CPUs of the pod for the first time. So an
operator that was killed can continue after its restart, or restore the pod's original CPUs.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.model import AnnotationTime, ApiModel, ContainerName, PodUid
from gputopo.api.names import PROFILING_STATE_ANNOTATION
from gputopo.runtime.messages import first_error

MAX_POINTS = 64

ProfilingResult: TypeAlias = Literal[
    "Done", "TimeLimit", "Stopped", "CPUsNeeded", "ResizedByOther", "NotPossible"
]
"""Why no further number of CPUs is measured.

``Stopped``: the pod ends, or its GPUProfile or its request to measure was removed. ``CPUsNeeded``:
a pending pod would have taken the CPUs. ``ResizedByOther``: another client resized the pod.
"""

MilliCpus = Annotated[int, Field(ge=1, le=10**9)]


class CpuAmounts(ApiModel):
    """CPU request and limit of one container, in thousandths of a CPU."""

    request: MilliCpus
    limit: MilliCpus


class ProfiledPoint(ApiModel):
    """The measured speed of the pod with one CPU limit.

    Attributes:
        micro_steps_per_second: 0 if the pod reached no steady rate within the time limit.
        seconds: how long the pod had this limit during the measurement.
        setting: hash of the conditions except the CPUs, such as GPUs, image and neighbours; see
            :func:`gputopo.profiling.curve.setting_of`. Only points of one setting are comparable.
    """

    milli_cpu: Annotated[MilliCpus, Field(alias="milliCPU")]
    micro_steps_per_second: Annotated[int, Field(ge=0, le=2**63 - 1)]
    seconds: Annotated[int, Field(ge=0, le=10**9)] = 0
    setting: Annotated[str, Field(max_length=16)]


class ProfilingState(ApiModel):
    """The value of the annotation ``gputopo.io/profiling-state``.

    Attributes:
        uid: UID of the pod; an annotation with another UID was copied and is ignored.
        original: CPUs of the container before the measurement; it gets them back at the end.
        most_milli_cpu: highest CPU limit to measure.
        last: CPUs before the newest resize.
        target: CPUs of the newest resize.
        since: time of the newest resize.
        points: measured speeds of this pod.
        result: why the measurement ended; None while it continues.
        message: the result in words.
        restored: true if the operator has no CPUs to restore: kubelet has applied the original
            CPUs, or the pod has ended, cannot be measured or was resized by another client.
    """

    v: Literal[1] = 1
    uid: PodUid
    container: ContainerName
    original: CpuAmounts
    most_milli_cpu: Annotated[MilliCpus, Field(alias="mostMilliCPU")]
    started: AnnotationTime
    last: CpuAmounts
    target: CpuAmounts
    since: AnnotationTime
    points: Annotated[tuple[ProfiledPoint, ...], Field(max_length=MAX_POINTS)] = ()
    result: ProfilingResult | None = None
    message: Annotated[str, Field(max_length=1024)] = ""
    restored: bool = False

    def is_possible(self, container: str, cpu: CpuAmounts | None) -> bool:
        """Return whether the operator can have written this for a container with these CPUs now.

        A measurement never changes whether request and limit are equal, nor a request below its
        limit. CPUs of another client are possible; they end the measurement.
        """
        if self.container != container or cpu is None:
            return False
        if cpu not in {self.last, self.target}:
            return True
        guaranteed = cpu.request == cpu.limit
        original = self.original
        return (original.request == original.limit) == guaranteed and (
            guaranteed or original.request == cpu.request
        )

    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


def parse_profiling_state(annotations: Mapping[str, str], uid: str) -> ProfilingState | None:
    """Return the profiling state of the pod with this UID, or None if it has none.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    text = annotations.get(PROFILING_STATE_ANNOTATION)
    if text is None:
        return None
    try:
        state = ProfilingState.model_validate_json(text)
    except ValidationError as error:
        raise AnnotationError(f"{PROFILING_STATE_ANNOTATION}: {first_error(error)}") from None
    return state if state.uid == uid else None
