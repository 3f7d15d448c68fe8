"""Computes how much slower a workload runs beside another workload (SC17, section 3, figure 6).

A slowdown is the effect of one pod of the other workload. There are two scopes: ``Socket`` for a
pod with GPUs on the same NUMA nodes, and ``Node`` for a pod with GPUs on other NUMA nodes only. A
regression (:mod:`gputopo.profiles.ratefit`) estimates the effects, so samples beside several
workloads are used, too.

A slowdown is reported only if the samples determine it. Before any sample, it has a prior standard
deviation, and the samples must reduce it to at most 60 % (``MOST_LEFT``). Pods without a profile
may be of any workload, so no slowdown is reported for them. In each scope, only the
``MAX_NEIGHBOURS`` workloads with the most samples have a slowdown.

Example: the effect of a neighbour on the socket has the prior standard deviation 0.15. The
regression for 2 GPUs reduces the deviation to 0.05, the regression for 4 GPUs to 0.06. Both
regressions include the prior, so the prior is subtracted once: 1 / 0.05^2 + 1 / 0.06^2 - 1 / 0.15^2
= 633. The deviation of the combined effect is 1 / sqrt(633) = 0.04.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import sqrt
from operator import mul
from typing import Final, Literal, TypeAlias

from gputopo.api.profile import NeighbourFact, Sample
from gputopo.profiles.comparable import enough
from gputopo.profiles.percent import to_slowdown
from gputopo.profiles.ratefit import Effect, RateFit
from gputopo.profiles.terms import ON_NODE, ON_SOCKET, most_frequent, others_on_node

MOST_LEFT: Final = 0.6
"""An effect is known if samples reduce its standard deviation to at most this part of the prior."""

Scope: TypeAlias = Literal["Socket", "Node"]
SCOPES: Final[tuple[Scope, ...]] = ("Socket", "Node")

_PRIORS: Final[Mapping[Scope, float]] = {"Socket": ON_SOCKET, "Node": ON_NODE}


def neighbour_facts(fits: Mapping[int, RateFit]) -> list[NeighbourFact]:
    """Return the slowdown by each workload with enough samples. ``fits`` has GPU counts as keys."""
    facts = []
    for scope in SCOPES:
        effects = defaultdict[str, list[Effect]](list)
        for kind, workload, effect in chain.from_iterable(fit.effects for fit in fits.values()):
            if kind == scope:
                effects[workload].append(effect)
        beside = _beside(chain.from_iterable(fit.samples for fit in fits.values()), scope)
        named = most_frequent({name: len(beside[name]) for name in effects})
        facts += [_fact(name, scope, effects[name], beside[name]) for name in named]
    return [fact for fact in facts if fact]


def _beside(samples: Iterable[Sample], scope: Scope) -> dict[str, list[Sample]]:
    """Return the samples beside each neighbour."""
    found = defaultdict[str, list[Sample]](list)
    for sample in samples:
        on_socket = scope == "Socket"
        for workload in set(sample.socket_neighbours) if on_socket else others_on_node(sample):
            found[workload].append(sample)
    return found


def _fact(
    workload: str, scope: Scope, effects: Sequence[Effect], beside: Sequence[Sample]
) -> NeighbourFact | None:
    prior = _PRIORS[scope]
    effect = _combined(effects, prior)
    if workload.endswith("/") or effect.deviation > MOST_LEFT * prior or not enough(beside):
        return None
    slowdown = to_slowdown(effect)
    return NeighbourFact(
        workload=workload,
        scope=scope,
        percent=slowdown.percent,
        low_percent=slowdown.low,
        high_percent=slowdown.high,
        samples=len(beside),
    )


def _combined(effects: Sequence[Effect], prior: float) -> Effect:
    """Return the weighted mean of the effect in several regressions; count the prior once."""
    precisions = [1 / effect.deviation**2 for effect in effects]
    precision = sum(precisions) - (len(effects) - 1) / prior**2
    value = sum(map(mul, precisions, (effect.value for effect in effects))) / precision
    return Effect(value, 1 / sqrt(precision), min(effect.quantile for effect in effects))
