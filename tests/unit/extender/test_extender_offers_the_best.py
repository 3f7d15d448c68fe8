"""Of many nodes that fit, filter offers those that it would score highest."""

import dataclasses

from gputopo.api.enums import PolicyName
from gputopo.api.names import RESOURCE
from gputopo.topology.catalogue import named
from gputopo.topology.model import GpuMask
from gputopo_extender.book import State
from gputopo_extender.evaluate import (
    Evaluation,
    Misfit,
    ReasonClass,
    answers_of,
    evaluation,
    refused,
)
from gputopo_extender.pods import record_of
from gputopo_extender.request import Ask, read
from objects import pod

FREE = (0b11111111, 0b00000011, 0b00001111, 0b00000000)


def ask_of(gpus: int) -> Ask:
    record = record_of(pod("one", gpus), RESOURCE)
    assert record is not None
    ask = read(record, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(ask, Ask)
    return ask


def found(nodes: int) -> Evaluation:
    """Return what a pod of one GPU finds on nodes that are free to different degrees."""
    ask = ask_of(1)
    topology = named("dgx1-v100", node="any")
    whole = State(topology, topology.mask, topology.mask, 0, None)
    states = [dataclasses.replace(whole, free=GpuMask(free)) for free in FREE]
    names = [f"n{number}" for number in range(nodes)]
    keys = [states[number % len(states)] for number in range(nodes)]
    return evaluation(names, keys, answers_of(states, ask.shape))


def test_offered_are_the_nodes_of_the_highest_score_that_are_most_in_use() -> None:
    many = found(400)
    scores = many.scores(sensitive=False)
    offered = many.best(sensitive=False)
    assert offered == [f"n{number}" for number in range(1, 400, 4)], "two of their GPUs are free"
    assert {scores[name] for name in offered} == {max(scores.values())}


def test_of_nodes_with_one_score_the_fullest_is_offered() -> None:
    names = [f"n{number}" for number in range(200)]
    topology = named("dgx1-v100", node="any")
    whole = State(topology, topology.mask, topology.mask, 0, None)
    fuller = dataclasses.replace(whole, free=GpuMask(0b11110000))
    keys = [whole] * 199 + [fuller]
    candidate = answers_of([whole], ask_of(1).shape)[whole]
    one_score = evaluation(names, keys, {whole: candidate, fuller: candidate})
    assert one_score.best(sensitive=True) == ["n199"]


def test_where_no_node_fits_none_is_offered() -> None:
    none = refused(["n0", "n1"], "it cannot be read")
    assert none.best(sensitive=True) == none.fits() == []


def test_of_a_pod_that_is_being_bound_its_node_is_the_best() -> None:
    (candidate,) = found(1).answers.values()
    elsewhere = Misfit(ReasonClass.RESERVED_ELSEWHERE, "it is being bound to another node")
    under_way = evaluation(
        ["n0", "n1", "n2"], [False, True, False], {True: candidate, False: elsewhere}
    )
    assert under_way.best(sensitive=True) == under_way.fits() == ["n1"]
