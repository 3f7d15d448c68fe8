"""Chooses the members that are withdrawn: other pods use the GPUs for which they wait."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gputopo_operator.decision.ensemble.delays import not_created
from gputopo_operator.decision.ensemble.members import MemberState
from gputopo_operator.model.ensembles import EnsembleInput

PATIENCE_SECONDS: Final = 30.0
"""For how long a member waits for GPUs of its planned node that other pods use.

Without this time, a pod that has just ended would withdraw the member: its GPUs are used until the
agent reports that they are free."""


def withdrawn_members(
    found: EnsembleInput, active: Sequence[MemberState]
) -> tuple[dict[str, str], float | None]:
    """Return the members that start but get no GPUs, and when the next one is withdrawn.

    Nothing is lost, because no program of these members runs.
    """
    free = {node.name: node.gpus for node in found.nodes}
    starting, withdrawn, waits = [], dict[str, str](), None
    for member in active:
        if member.phase not in {"Starting", "Running"} or member.job is None:
            continue
        if member.failed.delays(found.now):
            withdrawn[member.name] = not_created(member)
        elif member.bound and member.node is not None:
            free[member.node] = free.get(member.node, 0) - member.job.gpus
        else:
            starting.append((member, member.job.gpus))
    for member, gpus in starting:
        node = member.node or ""
        left = max(0, free.get(node, 0))
        wait = _patience(member, found.now)
        if left >= gpus or wait > 0:
            free[node] = left - gpus
            waits = waits if left >= gpus else min(wait, waits or wait)
        else:
            withdrawn[member.name] = f"node {node} has {left} of {gpus} GPUs for it"
    return withdrawn, waits


def _patience(member: MemberState, now: str) -> float:
    """Return for how long a member still waits; 0 if its pod is being deleted from its node."""
    if member.starting_since is None:
        return 0.0
    since = datetime.fromisoformat(now) - datetime.fromisoformat(member.starting_since)
    return PATIENCE_SECONDS - since.total_seconds()
