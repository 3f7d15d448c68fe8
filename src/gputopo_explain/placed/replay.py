"""Repeats the decision about a placed pod, and compares the result with what was recorded.

The functions take only the annotations of the pod and the GPUTopology of its node. They choose with
the same function as the extender.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.replay import ReplayRecord
from gputopo.bandwidth.model import ModelError
from gputopo.placement.model import Match, NoFit
from gputopo.placement.place import place
from gputopo.topology.model import GpuIndex, GpuUuid, NodeTopology
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_explain.placed.recorded import (
    DecisionInput,
    RecordedPlacement,
    RecordError,
    UnknownInputError,
    decision_input,
)
from gputopo_scheduling.record import placement_figures

NO_TOPOLOGY: Final = "the node has no GPUTopology any more"


class ReplayVerdict(StrEnum):
    """Whether a replay gives the same choice."""

    SAME = "Same"
    DIFFERENT = "Different"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay.

    Attributes:
        reasons: what differs, or why the result is unknown; empty if the choice is the same.
        input: the input of the decision; None if it is unknown or contradicts itself.
        match: the choice of the replay; None if there is none.
    """

    verdict: ReplayVerdict
    reasons: tuple[str, ...] = ()
    input: DecisionInput | None = None
    match: Match | None = None


def replay(
    recorded: RecordedPlacement,
    node: GpuNode | UnreadableTopology | None,
    *,
    same_gpus: bool = True,
) -> Replay:
    """Decide again with the recorded input, and compare the choice and the figures.

    Args:
        recorded: the annotations of the pod.
        node: the node as published now; None if it has no GPUTopology.
        same_gpus: whether the UUIDs of ``node`` are those of the pod's node. They are not if the
            topology comes from a file that has no UUIDs.
    """
    try:
        figures, record = _known(recorded)
        topology = _same_structure(record, node)
        decision = decision_input(figures, record)
        chosen = _place(topology, decision)
    except UnknownInputError as error:
        return Replay(ReplayVerdict.UNKNOWN, (str(error),))
    except RecordError as error:
        return Replay(ReplayVerdict.DIFFERENT, (str(error),))
    if reasons := tuple(_differences(figures, decision, chosen, topology)):
        return Replay(ReplayVerdict.DIFFERENT, reasons, decision, chosen)
    same = Replay(ReplayVerdict.SAME, (), decision, chosen)
    return _compare_uuids(recorded, node, same) if same_gpus and isinstance(node, GpuNode) else same


def _known(recorded: RecordedPlacement) -> tuple[PlacementAnnotation, ReplayRecord]:
    if recorded.figures is None or recorded.record is None:
        raise UnknownInputError(recorded.unknown)
    return recorded.figures, recorded.record


def _same_structure(
    record: ReplayRecord, node: GpuNode | UnreadableTopology | None
) -> NodeTopology:
    """Return the topology of the node if it has the recorded structure."""
    if node is None:
        raise UnknownInputError(NO_TOPOLOGY)
    if isinstance(node, UnreadableTopology):
        raise UnknownInputError(f"the GPUTopology of the node is not valid: {node.reason}")
    before, now = record.fingerprint, node.topology.fingerprint
    if before != now:
        raise UnknownInputError(
            f"the GPUs or links of the node have changed since: fingerprint {before}, now {now}"
        )
    return node.topology


def _place(topology: NodeTopology, decision: DecisionInput) -> Match:
    try:
        chosen = place(
            topology,
            decision.free,
            decision.request,
            decision.model,
            surroundings=decision.surroundings,
            usable=decision.usable,
        )
    except (ModelError, ValueError) as error:
        raise RecordError(str(error)) from None
    if isinstance(chosen, NoFit):
        raise RecordError(f"with the recorded input the pod does not fit: {chosen.reason}")
    return chosen


def _differences(
    figures: PlacementAnnotation, decision: DecisionInput, chosen: Match, topology: NodeTopology
) -> Iterator[str]:
    if chosen.gpus != decision.chosen:
        yield f"GPUs: recorded {_join(decision.chosen)}; the replay chooses {_join(chosen.gpus)}"
        return
    again = placement_figures(decision.request, chosen, topology)
    for name, field in type(figures).model_fields.items():
        recorded, value = getattr(figures, name), getattr(again, name)
        # The fact is a text for people; the sensitivity was derived from the recorded numbers. The
        # prediction for a shared GPU was made from profiles, which the record does not have.
        if name not in {"fact", "replay", "sharing"} and recorded != value:
            yield f"{field.alias}: recorded {recorded}; the replay computes {value}"


def _compare_uuids(recorded: RecordedPlacement, node: GpuNode, same: Replay) -> Replay:
    """Compare the UUIDs of the annotation with those of the chosen indices."""
    chosen = same.match.gpus if same.match else ()
    uuids = tuple(map(GpuUuid, recorded.uuids))
    now = tuple(node.topology.uuid_of[index] for index in chosen)
    if now == uuids:
        return same
    text = f"UUIDs: recorded {_join(uuids)}; GPUs {_join(chosen)} of the node have {_join(now)}"
    generation = recorded.gpus.generation if recorded.gpus else node.generation
    if generation == node.generation:
        return Replay(ReplayVerdict.DIFFERENT, (text,), same.input, same.match)
    changed = f"the node's GPUs changed since: generation {generation}, now {node.generation}"
    return Replay(ReplayVerdict.UNKNOWN, (f"{changed}; {text}",), same.input, same.match)


def _join(items: Sequence[GpuIndex] | Sequence[GpuUuid]) -> str:
    return ", ".join(map(str, items))
