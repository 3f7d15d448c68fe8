"""The bandwidth models by name, and the default model."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.bandwidth.aggregate import Aggregate
from gputopo.bandwidth.eq2 import Equation2
from gputopo.bandwidth.model import BandwidthModel, ModelError
from gputopo.bandwidth.physical import Physical
from gputopo.patterns.model import Pattern
from gputopo.topology.model import NodeTopology

EQ2: Final = Equation2()
AGGREGATE: Final = Aggregate()
PHYSICAL: Final = Physical()

MODELS: Final[Mapping[str, BandwidthModel]] = MappingProxyType(
    {model.name: model for model in (EQ2, AGGREGATE, PHYSICAL)}
)


def named(name: str) -> BandwidthModel:
    """Return the model of a name.

    Raises:
        ModelError: on an unknown name.
    """
    if name not in MODELS:
        raise ModelError(f"model: {name!r} is not one of {', '.join(MODELS)}")
    return MODELS[name]


def default_model(topology: NodeTopology, pattern: Pattern) -> BandwidthModel:
    """Return the default model for a node and a pattern.

    It is equation 2 where that is supported, else the physical model. All sets of one node and
    pattern have the same model. Of the models that support everything, the physical one ranks
    measured sets best (docs/bandwidth-models.md).
    """
    return PHYSICAL if EQ2.unsupported_reason(topology, pattern) else EQ2
