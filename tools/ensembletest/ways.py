"""The ways to train five models with the same GPUs, and what each of them took. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from soaktest.client import Object

NODE_GPUS: Final = 8


class Way(StrEnum):
    """Who decides how many GPUs a model gets, and when it trains."""

    ENSEMBLE = "ensemble"
    ONE_GPU_EACH = "one-gpu-each"
    EQUAL_SHARES = "equal-shares"
    ONE_AFTER_THE_OTHER = "one-after-the-other"


@dataclass(frozen=True, slots=True)
class Run:
    """The program of a member.

    Attributes:
        start: seconds after the way began.
        end: seconds after the way began.
    """

    member: str
    gpus: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way took.

    Attributes:
        most_gpus: GPUs that it might use.
        runs: in the order of their starts.
    """

    way: Way
    most_gpus: int
    runs: Sequence[Run]

    @property
    def makespan(self) -> float:
        """Seconds from the creation of the first object to the end of the last program."""
        return max(run.end for run in self.runs)

    @property
    def idle(self) -> float:
        """Part of the GPU time in which no program had the GPU."""
        used = sum(run.gpus * (run.end - run.start) for run in self.runs)
        return 1 - used / (self.most_gpus * self.makespan)


def gpus_each(way: Way, most_gpus: int, members: int) -> int:
    """Return the GPUs of each member of a way that gives all the same number.

    >>> gpus_each(Way.EQUAL_SHARES, 16, 5)
    3
    """
    if way is Way.ONE_GPU_EACH:
        return 1
    if way is Way.EQUAL_SHARES:
        return min(NODE_GPUS, most_gpus // members)
    return min(NODE_GPUS, most_gpus)


def run_of(pod: Object, began: datetime, gpus: int) -> Run:
    """Return when the program of an ended pod ran; its time has a resolution of 1 s."""
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    start, end = (
        (datetime.fromisoformat(ended[name]) - began).total_seconds()
        for name in ("startedAt", "finishedAt")
    )
    return Run(pod["metadata"]["labels"]["gputopo.io/job"], gpus, start, end)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Return lines that compare the ways with the first one."""
    first = outcomes[0].makespan
    yield "way                  makespan s  against the first  idle GPUs"
    for each in outcomes:
        yield (
            f"{each.way:19}  {each.makespan:10.0f}  {each.makespan / first:17.2f}  {each.idle:7.0%}"
        )
    for each in outcomes:
        yield ""
        yield f"{each.way}: member, GPUs, start and end in s"
        for run in each.runs:
            yield f"  {run.member:16}  {run.gpus}  {run.start:4.0f}  {run.end:4.0f}"
