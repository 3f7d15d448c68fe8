"""Generates models with random rates, as in the paper's experiment, and profiles them.

The paper publishes the range of its 100 rates on one GPU (21 to 176 images per second), but neither
the rates nor how they scale. So the rates are uniform in this range, and a model with ``m`` GPUs on
``n`` nodes makes ::

    r(m, n) = r(1) * m / (1 + a * (m - 1) + b * (n - 1))

items per second. ``a`` is the loss of a further GPU and ``b`` that of a further node; both differ
between models. This is another law than FLEET's equation 1, so that extrapolated rates are wrong,
as they are in reality. Profiling measures ``m = 1..M_t`` on the fewest nodes, with an error.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.ensemble.model import EnsembleMember
from gputopo.ensemble.rates import MemberRates, profiling_range
from gputopo_simulate.errors import SimulationError

ITEMS_PER_EPOCH: Final = 1_281_167
"""Images of the ImageNet training set, which the paper uses."""


@dataclass(frozen=True, slots=True)
class EnsembleLaw:
    """Ranges from which models are drawn, all uniform.

    Attributes:
        rates: items per second with one GPU.
        gpu_loss: loss of a further GPU, ``a``.
        node_loss: loss of a further node, ``b``.
        epochs: length of the training.
        noise: standard deviation of a measured rate, relative.
    """

    rates: tuple[float, float] = (21.0, 176.0)
    gpu_loss: tuple[float, float] = (0.01, 0.04)
    node_loss: tuple[float, float] = (0.02, 0.08)
    epochs: tuple[int, int] = (10, 10)
    noise: float = 0.03

    def __post_init__(self) -> None:
        for field in ("rates", "gpu_loss", "node_loss", "epochs"):
            least, most = getattr(self, field)
            if not 0 <= least <= most:
                raise SimulationError(f"{field}: {least}..{most}; must be 0 or more and ascending")
        if not (self.rates[0] > 0 and self.epochs[0] > 0 and 0 <= self.noise < 1):
            raise SimulationError(
                f"rates, epochs, noise: {self.rates[0]}, {self.epochs[0]}, {self.noise};"
                " rates and epochs must be above 0, noise in 0..1"
            )


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A model with its true rates.

    Attributes:
        one_gpu: items per second with one GPU.
        items: items that it processes until it ends.
    """

    name: str
    one_gpu: float
    gpu_loss: float
    node_loss: float
    items: float

    def rate(self, gpus: int, nodes: int) -> float:
        """Return the items per second with GPUs on a number of nodes."""
        loss = self.gpu_loss * (gpus - 1) + self.node_loss * (nodes - 1)
        return self.one_gpu * gpus / (1 + loss)


def generate(seed: int, count: int, law: EnsembleLaw) -> tuple[SimulatedModel, ...]:
    """Return random models. Equal arguments give equal models."""
    source = random.Random(seed)  # noqa: S311 - a simulation
    return tuple(
        SimulatedModel(
            f"model-{number}",
            source.uniform(*law.rates),
            source.uniform(*law.gpu_loss),
            source.uniform(*law.node_loss),
            float(source.randint(*law.epochs) * ITEMS_PER_EPOCH),
        )
        for number in range(1, count + 1)
    )


def profile(
    models: Sequence[SimulatedModel], gpus_per_node: int, most: int, seed: int, noise: float
) -> tuple[EnsembleMember, ...]:
    """Return the members with measured rates, as FLEET profiles them.

    Args:
        models: the models, with their true rates.
        gpus_per_node: GPUs of a node.
        most: GPUs of the cluster; rates are extrapolated up to it.
        seed: decides the errors of the measurements.
        noise: standard deviation of these errors, relative.
    """
    source = random.Random(f"{seed}/profile")  # noqa: S311 - a simulation
    wanted = profiling_range((model.one_gpu for model in models), gpus_per_node).most
    members = []
    for model in models:
        measured = {
            gpus: model.rate(gpus, -(-gpus // gpus_per_node)) * max(0.1, source.gauss(1.0, noise))
            for gpus in range(1, min(wanted, most) + 1)
        }
        members.append(EnsembleMember(model.name, MemberRates.of(measured, most), model.items))
    return tuple(members)
