"""Random pods that run for a moment, and the replay of each of their placements."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import workloads
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import MAPA_POLICIES
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_explain.placed.explanation import PlacedExplanation, explain_placed
from sandbox import Sandbox
from showcase.kubectl import Object, wait_for

MOST_GPUS: Final = 5
_AT_ONCE: Final = 20


def churn(sandbox: Sandbox, count: int, *, seed: int = 15, node: str | None = None) -> list[Object]:
    """Run random pods, more than fit at once, and return them when all have ended.

    Args:
        sandbox: the namespace.
        count: number of pods.
        seed: pods of equal seeds are equal.
        node: the only node for the pods; None for all nodes.
    """
    manifests = [*_random_pods(random.Random(seed), count, sandbox.image, node)]  # noqa: S311
    for begin in range(0, count, _AT_ONCE):
        sandbox.create(*manifests[begin : begin + _AT_ONCE])

    def ended() -> Sequence[Object] | None:
        pods = [pod for pod in sandbox.pods() if workloads.phase(pod) in {"Succeeded", "Failed"}]
        return pods if len(pods) == count else None

    return [*wait_for(f"{count} pods have ended", ended, timeout_s=60 + 5 * count, interval_s=2)]


def _random_pods(draw: random.Random, count: int, image: str, node: str | None) -> Iterator[Object]:
    for number in range(count):
        gpus = draw.randint(1, MOST_GPUS)
        manifest = workloads.gpu_pod(
            f"churn-{number}",
            gpus,
            image=image,
            node=node,
            annotations=_annotations(draw, gpus),
            command=["sleep", str(draw.choice((0.5, 1, 2)))],
        )
        manifest["spec"]["restartPolicy"] = "Never"
        yield manifest


def _annotations(draw: random.Random, gpus: int) -> dict[str, str]:
    found = {"gputopo.io/pattern": draw.choice([*PatternKind])}
    if found["gputopo.io/pattern"] == PatternKind.CUSTOM:
        if gpus == 1:
            return {}
        pairs = [draw.sample(range(gpus), 2) for _ in range(draw.randint(1, 6))]
        edges = [{"from": a, "to": b, "weight": draw.randint(1, 9)} for a, b in pairs]
        found["gputopo.io/edges"] = json.dumps(edges)
    if draw.random() < 0.6:
        found["gputopo.io/policy"] = draw.choice(MAPA_POLICIES)
    if draw.random() < 0.4:
        found["gputopo.io/bandwidth-sensitivity"] = draw.choice([*Sensitivity])
    return found


def explained(sandbox: Sandbox, pods: Sequence[Object]) -> list[PlacedExplanation]:
    """Explain each pod from its own object and the GPUTopology of its node only."""
    topologies = {each["metadata"]["name"]: each for each in sandbox.kubectl.list("gputopologies")}
    return [explain_placed(pod, topologies.get(pod["spec"]["nodeName"])) for pod in pods]


def summary(found: Sequence[PlacedExplanation]) -> str:
    """Return the numbers of placements by verdict, pattern and number of GPUs."""
    verdicts = Counter(each.replay.verdict for each in found)
    patterns = Counter(each.recorded.figures.pattern for each in found if each.recorded.figures)
    sizes = Counter(len(each.recorded.uuids) for each in found)
    known = sum(each.nodes is not None for each in found)
    counts = [dict(sorted(each.items())) for each in (verdicts, patterns, sizes)]
    return f"{len(found)} placements: {counts}; {known} with other nodes"
