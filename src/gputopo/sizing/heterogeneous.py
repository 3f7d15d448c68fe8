"""Synergy-Opt where GPUs are of several kinds (appendix A.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import mul

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.menu import Target, menu_of
from gputopo.sizing.model import (
    Ask,
    Outcome,
    Server,
    proportional_share,
    proportional_throughput,
    whole_capacity,
)
from gputopo.sizing.opt import realised
from gputopo.sizing.rooms import checked, outcome
from gputopo.sizing.solver import Program, solve


@dataclass(frozen=True, slots=True)
class MixedAsk:
    """A job that would run now, on servers of one of several kinds.

    Attributes:
        job: its id.
        matrices: its sensitivity by kind, throughputs in one unit; without the kinds it
            cannot run on.
        fair_throughput: what it is promised, W_fair of the paper, which leaves to others
            how that is found.
    """

    job: str
    matrices: Mapping[str, SensitivityMatrix]
    fair_throughput: float

    def __post_init__(self) -> None:
        """Refuse a job without a kind, a promise or one number of GPUs.

        Raises:
            ValueError: naming the job, the field and the value.
        """
        counts = sorted({matrix.gpus for matrix in self.matrices.values()})
        if len(counts) != 1:
            raise ValueError(f"job {self.job}: matrices: of {counts} GPUs, not of one number")
        if not 0 < self.fair_throughput < inf:
            raise ValueError(
                f"job {self.job}: fair_throughput: {self.fair_throughput} is not a positive number"
            )

    @property
    def gpus(self) -> int:
        """The GPUs it asks for, all of one kind."""
        return next(iter(self.matrices.values())).gpus


def heterogeneous(kinds: Mapping[str, Sequence[Server]], asks: Sequence[MixedAsk]) -> Outcome:
    """Return who runs on which kind and gets what, no job slower than its fair throughput.

    A job runs on a kind only where the proportional share of its GPUs there yields that,
    for a promise beyond it could not be kept on each server. GPUs that no job of the
    queue's front can use, as it would have to be split over kinds, go to the next ones: the
    program is solved again for what is left.

    Args:
        kinds: the servers of each kind.
        asks: running and waiting jobs alike, the one that should run first in front.

    Raises:
        SolverMissingError: HiGHS is not installed.
        ValueError: no server, or a server or job named twice.
    """
    checked([server for servers in kinds.values() for server in servers], asks)
    homes: dict[str, list[Target]] = {kind: [] for kind, servers in kinds.items() if servers}
    queue = list(asks)
    while jobs := _runnable(queue, sum(_free(kinds[kind], homes[kind])[0] for kind in homes)):
        for kind, target in _assigned(kinds, homes, jobs):
            homes[kind].append(target)
        seen = {ask.job for ask in jobs}
        queue = [ask for ask in queue if ask.job not in seen]
    tenants = [
        tenant for kind, targets in homes.items() for tenant in realised(kinds[kind], targets)
    ]
    return outcome(asks, tenants)


def _assigned(
    kinds: Mapping[str, Sequence[Server]],
    homes: Mapping[str, Sequence[Target]],
    jobs: Sequence[MixedAsk],
) -> list[tuple[str, Target]]:
    """Solve the first program, equations 22 to 26, for what is left of each kind.

    The paper leaves out that a kind has only so many GPUs; that is a row here. Its equation
    25 has every job run, which need not be possible: here it is found first how many GPUs
    can be in use at once, and then the most throughput with so many.
    """
    free = {kind: _free(kinds[kind], targets) for kind, targets in homes.items()}
    choices = [
        (job, row, kind, target)
        for job, ask in enumerate(jobs)
        for row, kind in enumerate(homes)
        for target in _targets(ask, kind, kinds[kind])
    ]
    if not choices:
        return []
    gpus = [float(target.ask.gpus) for *_, target in choices]
    used = len(jobs) + 4 * len(free)
    program = Program(
        gains=gpus,
        columns=[
            [(job, 1.0), *_taken(target, len(jobs) + 4 * row), (used, float(target.ask.gpus))]
            for job, row, _, target in choices
        ],
        limits=[(-inf, 1.0)] * len(jobs)
        + [(-inf, amount) for amounts in free.values() for amount in amounts]
        + [(0.0, inf)],
        whole=True,
    )
    most = sum(map(mul, gpus, solve(program).values))
    solution = solve(
        replace(
            program,
            gains=[target.option.worth for *_, target in choices],
            limits=[*program.limits[:used], (most - 1 / 2, inf)],
        )
    )
    return [
        (kind, target)
        for (*_, kind, target), value in zip(choices, solution.values, strict=True)
        if value > 1 / 2
    ]


def _free(servers: Sequence[Server], targets: Sequence[Target]) -> tuple[float, ...]:
    """Return the GPUs, CPUs, memory and storage bandwidth that are left of a kind."""
    there_is = (sum(server.gpus for server in servers), *whole_capacity(servers))
    taken = [(target.ask.gpus, *target.option[:3]) for target in targets]
    return tuple(
        amount - sum(each[which] for each in taken) for which, amount in enumerate(there_is)
    )


def _runnable(waiting: Sequence[MixedAsk], gpus: float) -> list[MixedAsk]:
    """Return, in order, each job that finds as many GPUs left as it asks, of whatever kind."""
    chosen = []
    for ask in waiting:
        if ask.gpus <= gpus:
            chosen.append(ask)
            gpus -= ask.gpus
    return chosen


def _targets(ask: MixedAsk, kind: str, servers: Sequence[Server]) -> list[Target]:
    """Return what a job could have on a kind; nothing where its share breaks the promise."""
    matrix = ask.matrices.get(kind)
    if matrix is None:
        return []
    here = Ask(ask.job, matrix)
    if proportional_throughput(servers, here) < ask.fair_throughput:
        return []
    menu = menu_of(Ask("", matrix), proportional_share(servers, 1), ask.fair_throughput)
    return [Target(here, menu, option) for option in menu.options]


def _taken(target: Target, row: int) -> list[tuple[int, float]]:
    amounts = (target.ask.gpus, *target.option[:3])
    return [(row + which, float(amount)) for which, amount in enumerate(amounts)]
