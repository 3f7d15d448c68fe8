"""Decides which writes one GPUEnsemble needs; the pure function ``decide_ensemble``.

The decision is level-triggered: it depends on the objects, not on the event that caused it. The
only thing it remembers is the plan, in the status.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gputopo.api.ensemble import GPUEnsembleSpec, GPUEnsembleStatus
from gputopo_kube.document import ObjectKey
from gputopo_operator.decision.conditions import updated_conditions
from gputopo_operator.decision.ensemble.conditions import phase_of, rejected
from gputopo_operator.decision.ensemble.job import member_job
from gputopo_operator.decision.ensemble.members import MemberState, member_states
from gputopo_operator.decision.ensemble.plans import EnsembleChanges, changes_of
from gputopo_operator.decision.ensemble.preprocessor import preprocessor_plan
from gputopo_operator.decision.ensemble.preprocessor_objects import with_address
from gputopo_operator.decision.ensemble.status import (
    ensemble_events,
    ensemble_status,
    started_events,
)
from gputopo_operator.decision.events import invalid_status
from gputopo_operator.model.ensembles import EnsembleInput, EnsembleWrites, JobDeletion

RECHECK_SECONDS: Final = 10.0
"""Interval while members have not ended: other pods and measured rates cause no event."""

SERVICE_SECONDS: Final = 1.0
"""Interval while the Service of the preprocessor does not have an address yet."""

REJECTED_RECHECK_SECONDS: Final = 60.0


def decide_ensemble(found: EnsembleInput) -> EnsembleWrites:
    """Return the writes that a GPUEnsemble needs now."""
    ensemble = found.ensemble
    if ensemble.deleting or ensemble.status.phase in {"Succeeded", "Failed"}:
        return EnsembleWrites()
    if ensemble.spec is None:
        return _rejected(found)
    members = member_states(found, ensemble.spec)
    changes = _changes(found, ensemble.spec, members)
    preprocessor = preprocessor_plan(found, ensemble.spec, members, changes)
    if preprocessor.waits:
        seconds = SERVICE_SECONDS if preprocessor.writes.create else changes.waits_seconds
        changes = replace(changes, start=(), waits_seconds=seconds)
    status = ensemble_status(found, ensemble.spec, members, changes, preprocessor)
    specs = {member.name: member.spec for member in members}
    return EnsembleWrites(
        status=None if status == ensemble.status and not ensemble.status_error else status,
        delete=_deletions(found, members, changes),
        preprocessor=preprocessor.writes,
        create={
            each.member: with_address(
                member_job(ensemble, specs[each.member], each.gpus, each.nodes[0].name),
                preprocessor.address,
            )
            for each in changes.start
        },
        started=started_events(changes),
        events=(
            *invalid_status(ensemble.status_error),
            *ensemble_events(found, status, changes),
        ),
        recheck_after_seconds=_recheck_after_seconds(found, status, changes),
    )


def _changes(
    found: EnsembleInput, spec: GPUEnsembleSpec, members: Sequence[MemberState]
) -> EnsembleChanges:
    if not spec.suspend:
        return changes_of(found, spec, members)
    live = [each for each in members if each.phase in {"Starting", "Running"}]
    return EnsembleChanges(stop={each.name: "the ensemble was suspended" for each in live})


def _deletions(
    found: EnsembleInput, members: Sequence[MemberState], changes: EnsembleChanges
) -> tuple[JobDeletion, ...]:
    namespace = found.ensemble.key.namespace
    return tuple(
        JobDeletion(ObjectKey(namespace, each.job.name), each.job.uid)
        for each in members
        if each.name in changes.stop and each.job is not None
    )


def _rejected(found: EnsembleInput) -> EnsembleWrites:
    """Return the status of an ensemble whose spec is not valid. Its members go on."""
    ensemble, before = found.ensemble, found.ensemble.status
    conditions = updated_conditions(
        before.conditions,
        rejected(ensemble.spec_error),
        generation=ensemble.generation,
        now=found.now,
    )
    after = before.model_copy(
        update={
            "observed_generation": ensemble.generation,
            "phase": phase_of(conditions),
            "conditions": conditions,
        }
    )
    events = ensemble_events(found, after, EnsembleChanges())
    return EnsembleWrites(status=None if after == before else after, events=events)


def _recheck_after_seconds(
    found: EnsembleInput, status: GPUEnsembleStatus, changes: EnsembleChanges
) -> float | None:
    if status.phase in {"Succeeded", "Failed"}:
        return None
    if found.errors or found.preprocessor_error:
        return REJECTED_RECHECK_SECONDS
    wait = changes.waits_seconds
    return RECHECK_SECONDS if wait is None else min(RECHECK_SECONDS, max(1.0, wait))
