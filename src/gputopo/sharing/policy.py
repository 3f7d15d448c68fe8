"""The settings of an installation for pods that share GPUs, and the flags that set them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from gputopo.api.profile import MAX_SHARES
from gputopo.api.shares import MAX_SLOWDOWN_PERCENT
from gputopo.runtime.settings import ProgramSettings
from gputopo.sharing.capacities import parse_capacities
from gputopo.sharing.choice import SharingSettings
from gputopo.sharing.loadlaw import LoadCapacity

MIN_GAIN_PERCENT: Final = 5
"""Default of the gain that a pod must bring."""

SLOWDOWN_PERCENT: Final = 100
"""Default limit of the slowdown of pods that declare none."""

MEMORY_PERCENT: Final = 50
"""Default of the largest part of a GPU's usable memory that one sharing pod may declare."""

ALL_MEMORY_PERCENT: Final = 100
"""The same for an installation without this setting, which limits no pod."""

_DEFAULT: Final = SharingSettings()


class Unknown(StrEnum):
    """What to do with workloads whose speed beside each other is unknown.

    EXCLUSIVE: they do not share a GPU. TRY: they do if no GPU of the node is idle, so that their
    speeds are measured.
    """

    EXCLUSIVE = "Exclusive"
    TRY = "Try"


class Preference(StrEnum):
    """Which GPU a sharing pod gets if sharing pays and other GPUs are idle."""

    SHARED = "Shared"
    IDLE = "Idle"


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    """Settings of the installation.

    Attributes:
        max_slowdown_percent: limit of pods that declare none; None for no limit.
        max_memory_percent: largest part of a GPU's usable memory that one pod may declare; an equal
            part is always allowed.
        capacities: by GPU model, the load that the jobs of one GPU can have together; models that
            are missing are not calibrated.
    """

    settings: SharingSettings = _DEFAULT
    unknown: Unknown = Unknown.EXCLUSIVE
    preference: Preference = Preference.SHARED
    max_slowdown_percent: int | None = None
    max_memory_percent: int = ALL_MEMORY_PERCENT
    capacities: Mapping[str, LoadCapacity] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        min_gain_percent: int = MIN_GAIN_PERCENT,
        max_slowdown_percent: int = SLOWDOWN_PERCENT,
        max_memory_percent: int = MEMORY_PERCENT,
        unknown: Unknown = Unknown.EXCLUSIVE,
        preference: Preference = Preference.SHARED,
        capacities: Mapping[str, LoadCapacity] | None = None,
    ) -> "SharingPolicy":
        """Return the policy of an installation. The nodes limit the number of pods."""
        settings = SharingSettings(margin=1 + min_gain_percent / 100, max_jobs=MAX_SHARES)
        return cls(
            settings,
            unknown,
            preference,
            max_slowdown_percent,
            max_memory_percent,
            capacities or {},
        )


def _checked_capacities(text: str) -> str:
    parse_capacities(text)  # raises SharingError, which is a ValueError
    return text


class SharingProgramSettings(ProgramSettings):
    """The flags about sharing of a program that decides which pods share GPUs."""

    sharing_min_gain_percent: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="pods share a GPU if the predicted sum of their speeds is above that of "
            "one pod by more than this",
        ),
    ] = MIN_GAIN_PERCENT
    sharing_max_slowdown_percent: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_SLOWDOWN_PERCENT,
            description="how much longer a step of a sharing pod may take than alone, if the pod "
            "does not say",
        ),
    ] = SLOWDOWN_PERCENT
    sharing_max_memory_percent: Annotated[
        int,
        Field(
            ge=1,
            le=ALL_MEMORY_PERCENT,
            description="largest part of a GPU's usable memory that one sharing pod may declare; "
            "an equal part is always allowed",
        ),
    ] = MEMORY_PERCENT
    sharing_unknown_pairs: Annotated[
        Unknown,
        Field(
            description="Exclusive: workloads share no GPU if their speeds beside each other are "
            "unknown; Try: they do where no GPU is idle, so that the speeds are measured"
        ),
    ] = Unknown.EXCLUSIVE
    sharing_preference: Annotated[
        Preference,
        Field(
            description="the GPU of a pod for which sharing pays while others are idle: Shared "
            "leaves whole GPUs to other pods, Idle is faster for the pod"
        ),
    ] = Preference.SHARED
    sharing_load_capacity: Annotated[
        str,
        AfterValidator(_checked_capacities),
        Field(
            description="MODEL=PERCENT for GPU models, separated by commas: sum of the SM "
            "occupancies up to which the jobs of one GPU do not slow each other down; the speeds "
            "of workloads that were never measured together are predicted by it"
        ),
    ] = ""

    @property
    def sharing_policy(self) -> SharingPolicy:
        """How sharing pods get GPUs."""
        return SharingPolicy.of(
            min_gain_percent=self.sharing_min_gain_percent,
            max_slowdown_percent=self.sharing_max_slowdown_percent,
            max_memory_percent=self.sharing_max_memory_percent,
            unknown=self.sharing_unknown_pairs,
            preference=self.sharing_preference,
            capacities=parse_capacities(self.sharing_load_capacity),
        )
