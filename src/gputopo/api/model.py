"""The base class and the value types that the models of all custom resources share."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Base class of the models: JSON keys are in camelCase, and unknown keys are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    def to_json(self) -> dict[str, Any]:
        """Return the model as a JSON object with camelCase keys, without fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _possible(text: str) -> str:
    datetime.fromisoformat(text)  # raises ValueError for a time such as 99:99:99
    return text


Uuid = Annotated[str, Field(min_length=1, max_length=63)]
"""UUID of a GPU; kubelet's device IDs have at most 63 characters."""

Memory = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$")]
"""A whole number of bytes as a Kubernetes quantity."""

SomeMemory = Annotated[str, Field(max_length=32, pattern=r"^0*[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$")]
"""The same, but not 0."""

AnyInteger = Annotated[int, Field(strict=True)]
CpuAmount = AnyInteger | Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?m?$")]
MemoryAmount = AnyInteger | Memory
"""Quantities that a user writes: a number such as ``cpu: 4`` is allowed too."""

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Generation = Annotated[int, Field(ge=0)]
NumaNodeId = Annotated[int, Field(ge=0, le=1023)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
ContainerName = Annotated[str, Field(min_length=1, max_length=63)]
ProfileName = Annotated[str, Field(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
Timestamp = Annotated[
    str, Field(max_length=20, pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")
]
"""RFC 3339, in UTC and whole seconds. The API server checks only this pattern."""

AnnotationTime = Annotated[Timestamp, AfterValidator(_possible)]
"""A time in an annotation or a status that others can write: it must exist."""

PodUid = Annotated[str, Field(min_length=1, max_length=64)]
MegabytesPerSecond = Annotated[int, Field(ge=0)]
ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(ApiModel):
    """A Kubernetes condition."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    message: Annotated[str, Field(max_length=4096)]
    last_transition_time: str
    observed_generation: Generation | None = None


Conditions = Annotated[list[Condition], Field(max_length=16)]
