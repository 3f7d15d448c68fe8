"""The annotation ``gputopo.io/link-result``: the speed of a job on the best and the worst links.

Before a GPUJob starts, the operator can run the program of the GPUJob twice for a short time: on
the GPUs of a node that have the best links, and on those that have the worst links.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, ValidationError

from gputopo.api.model import AnnotationTime, ApiModel, MegabytesPerSecond, ObjectName, PodUid

RunResult: TypeAlias = Literal[
    "Measured", "NotPlaced", "NoContrast", "TimeLimit", "Ended", "Stopped"
]
"""Why a run has ended.

``NotPlaced``: no GPUs were idle. ``NoContrast``: the best and the worst GPU set of the node have
about the same bandwidth. ``Ended``: the program or its Job ended before a sample was taken.
``Stopped``: the run is no longer needed, for instance because the job was suspended.
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
    """The result of one short run of a GPUJob's program, as an annotation of the Job of the run.

    Attributes:
        time: when the operator ended the run.
        node: the node of the run; None if the run was not placed.
        physical_mb_per_s: effective bandwidth of the run's GPUs by the physical model.
        micro_steps_per_second: the measured speed, only with the result ``Measured``.
        pattern: communication pattern for which the GPUs were chosen; None if the run was not
            placed, or an older operator ended it.
    """

    result: RunResult
    time: AnnotationTime
    node: ObjectName | None = None
    pod_uid: Annotated[PodUid | None, Field(alias="podUID")] = None
    physical_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="physicalMBps")] = None
    micro_steps_per_second: Annotated[int | None, Field(ge=1)] = None
    pattern: Annotated[str, Field(max_length=64)] | None = None


class LinksResult(_LinkAnnotation):
    """The result of the two short runs, or the reason why they gave no result.

    The operator writes this annotation to the child Job, which runs the program to its end.

    Attributes:
        result: reason of the GPUJob's condition Profiled. ``Done``: the runs have measured the
            slowdown on slow links. ``Known``: the GPUProfile already states this slowdown.
    """

    result: Annotated[str, Field(min_length=1, max_length=128)]
    message: Annotated[str, Field(max_length=1024)] = ""
