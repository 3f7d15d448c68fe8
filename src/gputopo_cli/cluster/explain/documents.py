"""The explanation of a placed pod as a JSON document (``gputopo explain -o json``)."""

from gputopo_cli.cluster.explain.utility import utility_document
from gputopo_cli.shared import output
from gputopo_explain.placed.choices import Choices, GpuChoice, IdleNode
from gputopo_explain.placed.explanation import PlacedExplanation, PodGpu
from gputopo_explain.placed.request import RequestPart
from gputopo_explain.placed.share import PlacedShare


def placed_document(found: PlacedExplanation) -> dict[str, object]:
    """Return the explanation as JSON. Later versions must keep all keys."""
    figures, choices = found.recorded.figures, found.choices
    return {
        "kind": "Placed",
        "pod": {"namespace": found.pod.namespace, "name": found.pod.name, "uid": found.pod.uid},
        "phase": found.pod.phase,
        "rejected": found.pod.rejected,
        "gpuJob": found.job or None,
        "node": found.node,
        "request": [_part(part) for part in found.request],
        "gpus": [_gpu(gpu) for gpu in found.gpus],
        "recorded": figures.to_json() if figures else None,
        "choices": _choices(choices) if choices else None,
        "share": _share(found.share) if found.share else None,
        "nodes": found.nodes.model_dump(by_alias=True) if found.nodes else None,
        "waited": found.waited.to_json() if found.waited else None,
        "replay": {
            "verdict": found.replay.verdict.value,
            "reasons": list(found.replay.reasons),
            "gpus": list(found.replay.match.gpus) if found.replay.match else None,
        },
    }


def _part(part: RequestPart) -> dict[str, object]:
    return {
        "name": part.name,
        "value": part.value,
        "source": part.source,
        "changed": part.changed or None,
    }


def _gpu(gpu: PodGpu) -> dict[str, object]:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "rank": gpu.rank,
        "container": gpu.container,
        "state": gpu.state,
    }


def _share(share: PlacedShare) -> dict[str, object]:
    return {
        "id": share.id,
        "memoryBytes": share.memory_bytes,
        "maxSlowdownPercent": share.limits.max_slowdown_percent,
        "ifSlow": "Move" if share.limits.moves else "Report",
        "termination": "Program" if share.limits.ends_itself else "Client",
        "summedSpeed": share.summed_speed,
        "reason": share.reason,
        "slowdowns": [{"pod": pod, "percent": percent} for pod, percent in share.slowdowns],
        "besideThen": [*share.beside],
        "besideNow": [*share.beside_now],
    }


def _choices(choices: Choices) -> dict[str, object]:
    return {
        "model": choices.model,
        "chosen": _choice(choices.chosen),
        "alternatives": [_choice(each) for each in choices.alternatives],
        "idleNode": _idle(choices.idle),
        "utility": utility_document(choices.utility) if choices.utility else None,
    }


def _idle(idle: IdleNode) -> dict[str, object]:
    return {
        **_choice(idle.choice),
        "mostEffectiveBandwidthGBps": output.to_gb_per_s(idle.most_effective),
        "reachedPercent": idle.reached_percent,
    }


def _choice(choice: GpuChoice) -> dict[str, object]:
    return {
        "gpus": list(choice.gpus),
        "effectiveBandwidthGBps": output.to_gb_per_s(choice.effective),
        "effectiveDifferenceGBps": output.to_gb_per_s(choice.effective_difference),
        "effectiveDifferencePercent": choice.effective_percent,
        "aggregateBandwidthGBps": output.to_gb_per_s(choice.aggregate),
        "preservedBandwidthGBps": output.to_gb_per_s(choice.preserved),
        "preservedDifferenceGBps": output.to_gb_per_s(choice.preserved_difference),
        "preservedDifferencePercent": choice.preserved_percent,
        **({} if choice.utility is None else {"utilityPermille": choice.utility}),
    }
