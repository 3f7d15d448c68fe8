"""Time laws: how long a job runs, either a fixed time or a time that depends on bandwidth.

A job communicates for the part ``c`` of its time and computes for the rest. More bandwidth makes
the communication faster, up to the bandwidth ``saturation``. So the slowdown is linear in
``1 / b`` for a bandwidth ``b``, with a lower and an upper limit.

    slowdown(b) = clamp(1 - c + c * saturation / b, 1, worst)

Example: c is 0.5, the saturation is 50 GB/s, and the job has 25 GB/s. It runs for 0.5 + 0.5 * 2 =
1.5 times its time on saturated links.

MAPA reports about its workloads:

- VGG-16 on two GPUs is up to 3 times as fast over a double NVLink as over PCIe (figure 2b). With
  c = 0.5 and a saturation of 50 GB/s, the slowdown over PCIe is close to this: equation 2 gives two
  GPUs over PCIe 10.4 GB/s, so the slowdown is 1 - 0.5 + 0.5 * 50 / 10.4 = 2.9.
- Bandwidth above 50 GB/s makes little difference (section 5.2, figure 16).
- AlexNet, ResNet-50 and Inception-v3 are like VGG-16; CaffeNet is like GoogLeNet, which hardly
  changes (section 2.3, figure 6). The paper has no numbers for these workloads, only charts. So
  AlexNet, ResNet-50 and Inception-v3 have the curve of VGG-16 here.
- Cusimann and GMM do not communicate; Jacobi gains less than 3 % (section 4).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from gputopo.runtime.messages import first_error
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import SimulatedJob

_MB_PER_GB: Final = 1000

_MAX_WORST: Final = 1e6


@dataclass(frozen=True, slots=True)
class SlowdownCurve:
    """The slowdown of a workload as a function of its effective bandwidth.

    Attributes:
        communication_share: part of the run time on saturated links that is communication, 0..1.
        saturation_gb_per_s: above this bandwidth the job does not become faster.
        worst: upper limit of the slowdown, at least 1.
    """

    communication_share: float
    saturation_gb_per_s: float = 50.0
    worst: float = 3.0

    def slowdown(self, effective_mb_per_s: float) -> float:
        """Return the run time relative to the run time on saturated links, 1..``worst``.

        A bandwidth of 0 or less, which equation 2 can give, has the slowdown ``worst``.
        """
        if self.communication_share == 0:
            return 1.0
        if effective_mb_per_s <= 0:
            return self.worst
        communication = self.saturation_gb_per_s * _MB_PER_GB / effective_mb_per_s
        share = self.communication_share
        return min(max(1.0, 1 - share + share * communication), self.worst)


FLAT: Final = SlowdownCurve(communication_share=0.0)
VGG16: Final = SlowdownCurve(communication_share=0.5)

PUBLISHED: Final[Mapping[str, SlowdownCurve]] = MappingProxyType(
    {
        "vgg16": VGG16,
        "alexnet": VGG16,
        "resnet50": VGG16,
        "inceptionv3": VGG16,
        "caffenet": FLAT,
        "googlenet": FLAT,
        "cusimann": FLAT,
        "gmm": FLAT,
        # 3 % slower on PCIe with 10 GB/s: 0.0075 * (50 / 10 - 1)
        "jacobi": SlowdownCurve(communication_share=0.0075),
    }
)
"""Curves of MAPA's nine workloads."""


class TimeLaw(Protocol):
    """Computes how long a job runs on the GPUs that it gets."""

    @property
    def name(self) -> str:
        """Name of this law of run times, as shown in results."""

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:
        """Return how long ``job`` runs. The bandwidth is None for a job of one GPU."""


@dataclass(frozen=True, slots=True)
class FixedTime:
    """Time law: every job runs for its service time, as in the authors' simulator."""

    name: ClassVar[str] = "fixed"

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:  # noqa: ARG002 - one signature
        """Return the service time."""
        return job.service


@dataclass(frozen=True)
class BandwidthTime:
    """Time law: a job of two GPUs or more runs longer with less bandwidth, by its curve.

    Attributes:
        curves: slowdown curves of workloads, by :func:`normalized_name`.
        sensitive: curve of a sensitive job whose workload has no curve.
        insensitive: curve of an insensitive job whose workload has no curve.
    """

    curves: Mapping[str, SlowdownCurve] = field(default_factory=lambda: PUBLISHED)
    sensitive: SlowdownCurve = VGG16
    insensitive: SlowdownCurve = FLAT
    name: ClassVar[str] = "bandwidth"

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:
        """Return the service time multiplied by the slowdown, which is 1 for one GPU."""
        if effective_mb_per_s is None:
            return job.service
        return job.service * self.curve(job).slowdown(effective_mb_per_s)

    def curve(self, job: SimulatedJob) -> SlowdownCurve:
        """Return the curve of the workload; without one, ``sensitive`` or ``insensitive``."""
        other = self.sensitive if job.sensitive else self.insensitive
        return (
            other if job.workload is None else self.curves.get(normalized_name(job.workload), other)
        )


def normalized_name(workload: str) -> str:
    """Return the name of a workload in lower case, without punctuation and file suffix.

    >>> normalized_name("VGG-16"), normalized_name("vgg16.sh"), normalized_name("Inception_v3")
    ('vgg16', 'vgg16', 'inceptionv3')
    """
    return "".join(filter(str.isalnum, workload.lower().removesuffix(".sh")))


class _CurveFields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    communicationShare: Annotated[float, Field(ge=0, le=1)]  # noqa: N815 - as in the file
    saturationGBps: Annotated[float, Field(gt=0)] = 50.0  # noqa: N815
    worst: Annotated[float, Field(ge=1, le=_MAX_WORST)] = 3.0


class _CurvesFile(RootModel[dict[str, _CurveFields]]):
    pass


def parse_curves(text: str, where: str = "curves") -> BandwidthTime:
    """Parse a user's file of curves, which take precedence over those in :data:`PUBLISHED`.

    The text is a JSON object with a curve for each workload: ``{"communicationShare": 0.5,
    "saturationGBps": 50, "worst": 3}``. The last two fields are optional. The curves named
    ``sensitive`` and ``insensitive`` are for jobs of all other workloads.

    Raises:
        SimulationError: the text is invalid; the message begins with ``where``, and names the field
            and the value.
    """
    try:
        parsed = _CurvesFile.model_validate(json.loads(text)).root
    except json.JSONDecodeError as error:
        raise SimulationError(f"{where}: line {error.lineno}: {error.msg}") from None
    except ValidationError as error:
        raise SimulationError(f"{where}: {first_error(error)}") from None
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, or deep nesting
        raise SimulationError(f"{where}: invalid JSON: {error}") from None
    curves = {
        normalized_name(name): SlowdownCurve(one.communicationShare, one.saturationGBps, one.worst)
        for name, one in parsed.items()
    }
    sensitive, insensitive = curves.pop("sensitive", VGG16), curves.pop("insensitive", FLAT)
    return BandwidthTime({**PUBLISHED, **curves}, sensitive, insensitive)
