"""The annotations of sizing running pods: the user's request, and the operator's record.

The operator writes ``gputopo.io/resources`` before each resize. So an operator that was killed
continues from the annotation and the spec of the pod.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, PlainSerializer, ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.model import AnnotationTime, ApiModel, PodUid
from gputopo.api.names import (
    RESOURCES_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
)
from gputopo.api.quantity import format_bytes, parse_bytes
from gputopo.runtime.messages import first_error, quoted

MAX_REASON: Final = 512
_LONGEST_MAX: Final = 64
_CPU: Final = re.compile(r"([0-9]{1,9})m|([0-9]{1,6}(?:\.[0-9]{1,3})?)")
_MEMORY: Final = re.compile(r"[0-9]{1,15}(?:[KMGT]i|[kMGT])?")

_Amount = Annotated[int, Field(ge=0, le=2**63 - 1)]
_MilliCpus = Annotated[int, Field(ge=0, le=10**9)]


class ResourcesMode(StrEnum):
    """``resources.mode`` of a pod: who decides about its CPUs and memory."""

    FIXED = "Fixed"
    PROPORTIONAL = "Proportional"
    AUTO = "Auto"


class Amounts(NamedTuple):
    """The requests of one container: thousandths of a CPU, and bytes of memory."""

    milli_cpu: Annotated[_MilliCpus, Field(alias="milliCPU")]
    memory: _Amount


def _amounts_to_json(amounts: Amounts) -> dict[str, int]:
    return {"milliCPU": amounts.milli_cpu, "memory": amounts.memory}


_AmountsField = Annotated[Amounts, PlainSerializer(_amounts_to_json)]


class TunedRecord(ApiModel):
    """The value of the annotation ``gputopo.io/resources``.

    Attributes:
        uid: UID of the pod; an annotation with another UID was copied and is ignored.
        floor: amounts with which the pod was created; gputopo never gives the pod less.
        last: amounts before the newest resize.
        target: amounts of the newest resize.
        since: time of the newest resize.
        reason: why the pod has these amounts, in words.
        done: kubelet has applied the newest resize, or the resize has ended without an effect. The
            pod then has the amounts ``target`` until the operator writes the next record.
        rejected: the API server or kubelet rejected the newest resize. The pod has its former
            amounts, or the operator is restoring them. ``reason`` has the message.
        before_micro_steps_per_second: measured rate before the newest resize; 0 if unknown.
        pinned: the pod cannot be resized, or another client has resized it. The operator does not
            resize the pod any more.
        peak_memory: most memory that the pod has had; 0 before the first resize.
        least_memory: memory below which the pod ran out of memory, or below which kubelet rejected
            a cut; 0 if neither has happened.
        most_milli_cpu: CPUs above which a raise has failed; None if no raise of CPUs has failed.
        most_memory: memory above which a raise has failed; None if no raise of memory has failed.
        deferrals: number of raises in a row that kubelet has deferred too long. The operator waits
            longer after each deferral.
    """

    v: Literal[1] = 1
    uid: PodUid
    floor: _AmountsField
    last: _AmountsField
    target: _AmountsField
    since: AnnotationTime
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""
    done: bool = False
    rejected: bool = False
    before_micro_steps_per_second: _Amount = 0
    pinned: bool = False
    peak_memory: _Amount = 0
    least_memory: _Amount = 0
    most_milli_cpu: Annotated[_MilliCpus | None, Field(alias="mostMilliCPU")] = None
    most_memory: _Amount | None = None
    deferrals: Annotated[int, Field(ge=0, le=20)] = 0

    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What a pod requests with ``gputopo.io/resources-mode`` and ``gputopo.io/resources-max``.

    Attributes:
        most_milli_cpu: most CPUs that the pod may get; None without a limit.
        most_memory: most bytes of memory that the pod may get; None without a limit.
    """

    mode: ResourcesMode = ResourcesMode.FIXED
    most_milli_cpu: int | None = None
    most_memory: int | None = None


def parse_tuned_record(annotations: Mapping[str, str], uid: str) -> TunedRecord | None:
    """Return the record of the pod with this UID, or None if it has none.

    Raises:
        AnnotationError: on a value that cannot be parsed.
    """
    text = annotations.get(RESOURCES_ANNOTATION)
    if text is None:
        return None
    try:
        record = TunedRecord.model_validate_json(text)
    except ValidationError as error:
        raise AnnotationError(
            f"{RESOURCES_ANNOTATION}: {first_error(error)}; the operator replaces the annotation, "
            "and the current CPUs and memory become the floor of the pod"
        ) from None
    return record if record.uid == uid else None


def parse_tuning_request(annotations: Mapping[str, str]) -> TuningRequest:
    """Return who decides about the CPUs and memory of a pod, and the most that it may get.

    Raises:
        AnnotationError: on a value that is not allowed.
    """
    mode, most = _mode(annotations), annotations.get(RESOURCES_MAX_ANNOTATION)
    if most is None:
        return TuningRequest(mode)
    if mode is ResourcesMode.FIXED:
        raise AnnotationError(
            f"{RESOURCES_MAX_ANNOTATION}: {quoted(most)} is allowed with "
            f"{RESOURCES_MODE_ANNOTATION}=Auto or Proportional only; set the mode, too"
        )
    bounds = _bounds(most)
    return TuningRequest(mode, bounds.get("cpu"), bounds.get("memory"))


def format_tuning_request(request: TuningRequest) -> dict[str, str]:
    """Return the annotations of a request; the inverse of :func:`parse_tuning_request`."""
    if request.mode is ResourcesMode.FIXED:
        return {}
    most = []
    if request.most_milli_cpu is not None:
        most.append(f"cpu={request.most_milli_cpu}m")
    if request.most_memory is not None:
        most.append(f"memory={format_bytes(request.most_memory)}")
    annotations = {RESOURCES_MODE_ANNOTATION: request.mode.value}
    return annotations | ({RESOURCES_MAX_ANNOTATION: ",".join(most)} if most else {})


def _mode(annotations: Mapping[str, str]) -> ResourcesMode:
    text = annotations.get(RESOURCES_MODE_ANNOTATION, ResourcesMode.FIXED.value)
    try:
        return ResourcesMode(text)
    except ValueError:
        allowed = ", ".join(ResourcesMode)
        raise AnnotationError(
            f"{RESOURCES_MODE_ANNOTATION}: {quoted(text)} is not one of {allowed}"
        ) from None


def _bounds(text: str) -> dict[str, int]:
    """Parse ``cpu=8,memory=64Gi``: thousandths of a CPU and bytes, by resource."""
    bounds: dict[str, int] = {}
    for part in text.split(",") if len(text) <= _LONGEST_MAX else [text]:
        resource, _, quantity = part.strip().partition("=")
        amount = _quantity(resource, quantity)
        if not amount or resource in bounds:
            raise AnnotationError(
                f"{RESOURCES_MAX_ANNOTATION}: {quoted(text)} is not a list of cpu=CPUS and "
                "memory=BYTES above 0, each at most once; for example 'cpu=8,memory=64Gi'"
            )
        bounds[resource] = amount
    return bounds


def _quantity(resource: str, text: str) -> int | None:
    """Return the amount of a resource, or None if the resource or the amount is not valid."""
    if resource == "cpu" and (cpus := _CPU.fullmatch(text)):
        return int(cpus[1]) if cpus[1] else int(Decimal(cpus[2]) * 1000)
    if resource == "memory" and _MEMORY.fullmatch(text):
        return parse_bytes(text, resource)
    return None
