"""Of many nodes that fit, filter offers those that it would score highest."""

import dataclasses

from gputopo.api.enums import PolicyName
from gputopo.api.names import RESOURCE
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo_extender.book import State
from gputopo_extender.evaluate import Evaluation, answers_of, evaluation
from gputopo_extender.pods import record_of
from gputopo_extender.request import Ask, read
from objects import pod

FREE = (0b11111111, 0b00000011, 0b00001111, 0b00000000)


def found(nodes: int) -> Evaluation:
    """Return what a pod of one GPU finds on nodes that are free to different degrees."""
    record = record_of(pod("one", 1), RESOURCE)
    assert record is not None
    ask = read(record, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(ask, Ask)
    topology = named("dgx1-v100", node="any")
    whole = State(topology, topology.mask, topology.mask, 0, None)
    states = [dataclasses.replace(whole, free=GpuMask(free)) for free in FREE]
    names = [f"n{number}" for number in range(nodes)]
    keys = [states[number % len(states)] for number in range(nodes)]
    return evaluation(names, keys, answers_of(states, ask.shape))


def test_few_nodes_are_all_offered_in_their_order() -> None:
    few = found(8)
    assert few.best(6, sensitive=False) == few.fits() == ["n0", "n1", "n2", "n4", "n5", "n6"]


def test_of_many_nodes_none_is_left_out_that_is_better_than_one_offered() -> None:
    many = found(400)
    scores = many.scores(sensitive=False)
    offered = many.best(120, sensitive=False)
    assert len(set(offered)) == 120
    assert set(offered) <= set(many.fits())
    worst = min(scores[name] for name in offered)
    assert all(scores[name] <= worst for name in set(many.fits()) - set(offered))
    assert offered[:100] == [f"n{number}" for number in range(1, 400, 4)]
