"""Which jobs and pods the soak creates, and when. Pure; the seed determines all of them."""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from resizetest.soaking.model import Expected, Size

MEBIBYTE = 2**20
FLOOR = 50
GUARANTEED_MEMORY = 128 * MEBIBYTE
_IDLE_GPUS = 2
_PART = 0.9
_GPUS = (1, 1, 2)
_LIFE_SECONDS = (20.0, 90.0)
_RESIZED_AFTER = (10.0, 20.0)
_SHARE_RESIZED = 0.08
_LEAST_FILLER, _MOST_FILLER = 100, 300

FILLER = "Filler"
"""Mode of a pod of the default scheduler, without GPUs."""

ENOUGH = {"hungry": 1600, "modest": 150}
"""CPUs with which the workloads of the soak reach their full speed, by GPUProfile."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job or pod.

    Attributes:
        weight: how often it is created, relative to the others.
        mode: ``Auto``, ``Proportional``, ``Fixed`` or ``FILLER``.
        is_job: whether it is a GPUJob; otherwise it is a pod with annotations.
        profile: its GPUProfile; ``learning`` has no facts at first, and its programs report steps.
        most: its upper bound, None without a bound.
        limit: CPU limit at its creation, if it differs from the request.
        guaranteed: whether its QoS class is Guaranteed.
    """

    name: str
    weight: int
    mode: str
    is_job: bool = False
    profile: str = ""
    most: int | None = None
    limit: int | None = None
    guaranteed: bool = False


KINDS: Sequence[Kind] = (
    Kind("job-hungry", 4, "Auto", is_job=True, profile="hungry"),
    Kind("job-modest", 3, "Auto", is_job=True, profile="modest"),
    Kind("job-learning", 2, "Auto", is_job=True, profile="learning"),
    Kind("job-share", 3, "Proportional", is_job=True),
    Kind("job-bounded", 1, "Proportional", is_job=True, most=120),
    Kind("pod-hungry", 2, "Auto", profile="hungry", guaranteed=True),
    Kind("pod-modest", 2, "Auto", profile="modest", limit=2 * FLOOR),
    Kind("pod-share", 3, "Proportional", guaranteed=True),
    Kind("pod-bounded", 1, "Auto", profile="hungry", most=200),
    Kind("pod-fixed", 2, "Fixed"),
    Kind("filler", 4, FILLER),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One job or pod to create.

    Attributes:
        seconds: how long it exists.
        resized_after: seconds until the soak resizes it as another client; None for never.
    """

    kind: Kind
    node: str
    expected: Expected
    seconds: float
    resized_after: float | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """An item, and the node that it would be created on."""

    item: Item
    capacity: int
    gpus: int

    def fits(self, present: Iterable[Item]) -> bool:
        """Return whether all pods run if the tuned ones are cut to their shares.

        Two GPUs stay idle, so the share of these is free for pods that are not tuned. A pod of the
        default scheduler is created only if it fits into 90 % of the share of the idle GPUs.
        """
        others = [each.expected for each in present]
        gpus = sum(each.gpus for each in others) + self.item.expected.gpus
        fixed = [each for each in others if not each.is_tuned]
        capacity = self.capacity - sum(each.created.request for each in fixed)
        share = capacity / (self.gpus - sum(each.gpus for each in fixed))
        idle = self.gpus - gpus
        return idle >= _IDLE_GPUS and self.item.expected.created.request <= _PART * share * idle


def offers(rng: random.Random, node: str, capacity: int, gpus: int, number: int) -> Iterator[Offer]:
    """Yield what the soak could create next on a node, without end.

    Args:
        rng: source of all choices.
        node: name of the node.
        capacity: CPUs that the node has for the soak.
        gpus: GPUs of the node.
        number: of the node, for the names.
    """
    for made in itertools.count(1):
        (kind,) = rng.choices(KINDS, [each.weight for each in KINDS])
        name = f"soak-{number}-{made}-{kind.name}"
        filler = rng.randrange(_LEAST_FILLER, _MOST_FILLER, 10)
        expected = _expected(kind, name, gpus=rng.choice(_GPUS), filler=filler)
        seconds, resized_after = rng.uniform(*_LIFE_SECONDS), rng.uniform(*_RESIZED_AFTER)
        is_resized = rng.random() < _SHARE_RESIZED and expected.is_tuned
        item = Item(kind, node, expected, seconds, resized_after if is_resized else None)
        yield Offer(item, capacity, gpus)


def _expected(kind: Kind, name: str, *, gpus: int, filler: int) -> Expected:
    if kind.mode == FILLER:
        return Expected(name, "Fixed", 0, Size(filler, 0, 16 * MEBIBYTE, 0))
    memory, memory_limit = 64 * MEBIBYTE, 256 * MEBIBYTE
    if kind.guaranteed:
        memory = memory_limit = GUARANTEED_MEMORY
    return Expected(
        name=name,
        mode=kind.mode,
        gpus=gpus,
        created=Size(FLOOR, kind.limit or FLOOR, memory, memory_limit),
        most=kind.most,
        enough=ENOUGH.get(kind.profile),
        learns=kind.profile == "learning",
        is_job=kind.is_job,
    )
