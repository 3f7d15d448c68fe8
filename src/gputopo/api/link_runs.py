"""The annotation ``gputopo.io/link-result``: what the two short runs of a job have measured."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, ValidationError

from gputopo.api.model import ApiModel, MegabytesPerSecond, ObjectName, PodUid, Timestamp

RunResult: TypeAlias = Literal[
    "Measured", "NotPlaced", "NoContrast", "TimeLimit", "Ended", "Stopped"
]
"""Why a run has ended.

``NotPlaced``: no GPUs were idle. ``NoContrast``: the links of the other GPU set have about the same
bandwidth. ``Ended``: the program or its Job ended before a sample was taken. ``Stopped``: the job
was suspended, or its links became known in another way.
"""


class _LinkAnnotation(ApiModel):
    def dump(self) -> str:
        """Return the compact JSON text of the annotation."""
        return self.model_dump_json(by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Return the parsed text, or None if it is missing or invalid."""
        try:
            return None if text is None else cls.model_validate_json(text)
        except ValidationError:
            return None


class LinkRunResult(_LinkAnnotation):
    """The annotation on the Job of a short run.

    Attributes:
        time: when the operator ended the run.
        node: the node of the run; None if the run was not placed.
        physical_mb_per_s: effective bandwidth of the run's GPUs by the physical model.
        micro_steps_per_second: the measured speed, only with the result ``Measured``.
    """

    result: RunResult
    time: Timestamp
    node: ObjectName | None = None
    pod_uid: Annotated[PodUid | None, Field(alias="podUID")] = None
    physical_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="physicalMBps")] = None
    micro_steps_per_second: Annotated[int | None, Field(ge=1)] = None


class LinksResult(_LinkAnnotation):
    """The annotation on the child Job: the result of both runs, for the condition Profiled.

    Attributes:
        result: a reason in CamelCase; ``Done`` and ``Known`` mean that the slowdown is known.
    """

    result: Annotated[str, Field(min_length=1, max_length=128)]
    message: Annotated[str, Field(max_length=1024)] = ""
