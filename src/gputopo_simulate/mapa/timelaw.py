"""How long a job holds its GPUs: a fixed time, or one that its bandwidth decides.

The law of the second kind is a line in ``1 / bandwidth`` between two limits: the job computes
for a share of its time whatever links it has, and for the rest it moves bytes, ever faster up
to a bandwidth from which on more is of no use.

    slowdown(b) = clamp(1 - c + c * saturation / b, 1, worst)

What MAPA says of its workloads:

- VGG-16 on two GPUs is up to 3 times as fast over a double NVLink as over PCIe (figure 2b). Two
  GPUs over PCIe have 10.4 GB/s by its equation 2, which gives c = 0.5 for a saturation of 50.
- Bandwidth above 50 GB/s makes little difference (section 5.2, figure 16).
- AlexNet, ResNet-50 and Inception-v3 follow VGG-16, CaffeNet follows GoogLeNet, which hardly
  changes (section 2.3, figure 6). Numbers for them can only be read off the pictures, so they
  have VGG-16's here.
- Cusimann and GMM do not communicate; Jacobi gains less than 3 % (section 4).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from gputopo.runtime.messages import first_error
from gputopo_simulate.mapa.model import SimulatedJob, SimulationError

_MB_PER_GB: Final = 1000

_WORST: Final = 1e6


@dataclass(frozen=True, slots=True)
class Curve:
    """How a workload slows down as its effective bandwidth falls.

    Attributes:
        communication_share: of the time on saturated links, 0..1.
        saturation_gb_per_s: from here on more bandwidth changes nothing.
        worst: slowdown that no link exceeds, at least 1.
    """

    communication_share: float
    saturation_gb_per_s: float = 50.0
    worst: float = 3.0

    def slowdown(self, effective_mb_per_s: float) -> float:
        """Return execution time over that on saturated links, 1..``worst``.

        Equation 2 may give nothing or less than nothing: that is the worst.
        """
        if self.communication_share == 0:
            return 1.0
        if effective_mb_per_s <= 0:
            return self.worst
        moving = self.saturation_gb_per_s * _MB_PER_GB / effective_mb_per_s
        share = self.communication_share
        return min(max(1.0, 1 - share + share * moving), self.worst)


FLAT: Final = Curve(communication_share=0.0)
VGG16: Final = Curve(communication_share=0.5)

PUBLISHED: Final[Mapping[str, Curve]] = MappingProxyType(
    {
        "vgg16": VGG16,
        "alexnet": VGG16,
        "resnet50": VGG16,
        "inceptionv3": VGG16,
        "caffenet": FLAT,
        "googlenet": FLAT,
        "cusimann": FLAT,
        "gmm": FLAT,
        # 3 % at PCIe's 10 GB/s: 0.0075 * (50 / 10 - 1)
        "jacobi": Curve(communication_share=0.0075),
    }
)
"""What is known of MAPA's nine workloads."""


class TimeLaw(Protocol):
    """From a job and what it was given to how long it runs."""

    @property
    def name(self) -> str:
        """What the law is called in results."""

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:
        """Return how long ``job`` holds its GPUs; None is the bandwidth of one GPU."""


@dataclass(frozen=True, slots=True)
class FixedService:
    """Every job runs for its service time, as in the authors' simulator."""

    @property
    def name(self) -> str:
        """``fixed``."""
        return "fixed"

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:  # noqa: ARG002 - the law of no law
        """Return the service time."""
        return job.service


@dataclass(frozen=True)
class ByBandwidth:
    """A job of two GPUs and more runs the longer the less bandwidth it has.

    Attributes:
        curves: by workload, named as :func:`plain` names them.
        sensitive: of a sensitive job whose workload has no curve.
        insensitive: of an insensitive one.
    """

    curves: Mapping[str, Curve] = field(default_factory=lambda: PUBLISHED)
    sensitive: Curve = VGG16
    insensitive: Curve = FLAT

    @property
    def name(self) -> str:
        """``bandwidth``."""
        return "bandwidth"

    def execution_time(self, job: SimulatedJob, effective_mb_per_s: float | None) -> float:
        """Return the service time, lengthened by the job's curve; one GPU is never slowed."""
        if effective_mb_per_s is None:
            return job.service
        return job.service * self.curve(job).slowdown(effective_mb_per_s)

    def curve(self, job: SimulatedJob) -> Curve:
        """Return the curve of a job's workload, or the one for jobs like it."""
        other = self.sensitive if job.sensitive else self.insensitive
        return other if job.workload is None else self.curves.get(plain(job.workload), other)


def plain(workload: str) -> str:
    """Return a workload's name without what differs from list to list.

    >>> plain("VGG-16"), plain("vgg16.sh"), plain("Inception_v3")
    ('vgg16', 'vgg16', 'inceptionv3')
    """
    return "".join(filter(str.isalnum, workload.lower().removesuffix(".sh")))


class _Curve(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    communicationShare: Annotated[float, Field(ge=0, le=1)]  # noqa: N815 - as in the file
    saturationGBps: Annotated[float, Field(gt=0)] = 50.0  # noqa: N815
    worst: Annotated[float, Field(ge=1, le=_WORST)] = 3.0


class _Curves(RootModel[dict[str, _Curve]]):
    pass


def parse_curves(text: str) -> ByBandwidth:
    """Return the law of a user's own curves, over :data:`PUBLISHED`.

    The text is JSON: for each workload, or for ``sensitive`` and ``insensitive`` jobs of any
    other, ``{"communicationShare": 0.5, "saturationGBps": 50, "worst": 3}``; the last two may
    be left out.

    Raises:
        SimulationError: on anything else; the message names the field and the value.
    """
    try:
        read = _Curves.model_validate(json.loads(text)).root
    except json.JSONDecodeError as error:
        raise SimulationError(f"curves: line {error.lineno}: {error.msg}") from None
    except ValidationError as error:
        raise SimulationError(first_error(error, prefix="curves")) from None
    except (ValueError, RecursionError) as error:  # thousands of digits; deep nesting
        raise SimulationError(f"curves: no JSON that can be read: {error}") from None
    curves = {
        plain(name): Curve(one.communicationShare, one.saturationGBps, one.worst)
        for name, one in read.items()
    }
    sensitive, insensitive = curves.pop("sensitive", VGG16), curves.pop("insensitive", FLAT)
    return ByBandwidth({**PUBLISHED, **curves}, sensitive, insensitive)
