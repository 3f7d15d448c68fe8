"""The models that can be asked for by name, and the one used when none is."""

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
    """Return the model of this name.

    Raises:
        ModelError: where there is none.
    """
    if name not in MODELS:
        raise ModelError(f"model: {name!r} is not one of {', '.join(MODELS)}")
    return MODELS[name]


def default_model(topology: NodeTopology, pattern: Pattern) -> BandwidthModel:
    """Return the model that ranks this node's sets for this pattern.

    Equation 2 in its domain, the physical model elsewhere: never both for one node and
    pattern. Of the models that are valid everywhere the physical one ranks best what has
    been measured (docs/bandwidth-models.md).
    """
    return PHYSICAL if EQ2.refusal(topology, pattern) else EQ2
