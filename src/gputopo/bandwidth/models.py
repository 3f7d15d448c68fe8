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
    """Return the bandwidth model with this name.

    Raises:
        ModelError: on an unknown name.
    """
    if name not in MODELS:
        raise ModelError(f"model: {name!r} is not one of {', '.join(MODELS)}")
    return MODELS[name]


def default_model(topology: NodeTopology, pattern: Pattern) -> BandwidthModel:
    """Return the default model for a node and a pattern.

    The default is equation 2 if it supports the node and the pattern, else the physical model. Of
    the models that support all nodes and patterns, the physical model comes closest to the measured
    ranking of GPU sets (docs/concepts/bandwidth-models.md).
    """
    return PHYSICAL if EQ2.unsupported_reason(topology, pattern) else EQ2
