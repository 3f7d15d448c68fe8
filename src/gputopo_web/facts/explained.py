"""The explanations that the panels show."""

from dataclasses import dataclass

from gputopo_explain.pending.model import GpuJobExplanation, PodExplanation
from gputopo_explain.placed.explanation import PlacedExplanation
from gputopo_explain.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation of a pod or GPUJob; at most one of the first three fields is set.

    Attributes:
        notes: what was missing or assumed.
        error: why there is no explanation; empty if there is one.
    """

    placed: PlacedExplanation | None = None
    pending: PodExplanation | None = None
    gpu_job: GpuJobExplanation | None = None
    notes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """Where a pod would be placed, or why the form is not valid (``error``)."""

    found: WhatIf | None = None
    notes: tuple[str, ...] = ()
    error: str = ""
