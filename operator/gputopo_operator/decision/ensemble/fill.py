"""Plans again, and lets waiting members use GPUs that would be idle otherwise.

FLEET plans waiting members on all GPUs of the ensemble, and they wait until the planned number is
free. This is right at the end of a flotilla. But a member that has lost its GPUs, for instance with
a node, would wait for more GPUs than are free, until the whole flotilla has ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from gputopo.ensemble.model import (
    EnsembleMember,
    EnsembleSettings,
    MemberPlacement,
    NodeGpuCount,
)
from gputopo.ensemble.plan import EnsemblePlan, plan_ensemble
from gputopo.ensemble.replan import NewPlan, replan
from gputopo.ensemble.starts import free_gpus, members_to_start


def new_plan(
    members: Sequence[EnsembleMember],
    running: Mapping[str, MemberPlacement],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> NewPlan:
    """Return the new plan, and what changes now.

    If no member starts now, the waiting members are also planned on the free GPUs alone. That plan
    is chosen if the ensemble then ends earlier, or if both ends are unknown.

    Args:
        members: members that have not ended.
        running: placements of the members that run or start.
        nodes: nodes with all GPUs that the ensemble may use.
        settings: limits and rules.
    """
    new = replan(members, running, nodes, settings)
    used = sum(placement.gpus for placement in running.values())
    left = None if settings.max_gpus is None else settings.max_gpus - used
    if new.start or new.stop or not running or left == 0:
        return new
    waiting = [member for member in members if member.name not in running]
    free, limits = free_gpus(nodes, running.values()), replace(settings, max_gpus=left)
    now = plan_ensemble(waiting, free, limits)
    names = [member.name for member in waiting]
    start = members_to_start(now.flotillas, names, {}, free, limits)
    seconds = max(now.seconds, *(_end(new.plan, name) for name in running))
    if not start or now.unplanned or seconds > new.plan.seconds:
        return new
    plan = EnsemblePlan(now.flotillas, now.unplanned, new.plan.runs, seconds)
    return NewPlan(plan, {}, start, tuple(running))


def _end(plan: EnsemblePlan, member: str) -> float:
    """Return when a running member ends by the plan; infinite if this is unknown."""
    ends = (run.end for run in plan.runs if run.placement.member == member)
    return max((inf if end is None else end for end in ends), default=inf)
