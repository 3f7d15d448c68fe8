"""What ``gputopo explain`` says about the pods of a run, which either version placed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gputopo_explain.placed.explanation import explain_placed
from gputopo_explain.placed.replay import Replay, ReplayVerdict
from showcase.kubectl import Kubectl, Object


def replays(kubectl: Kubectl, pods: Sequence[Object]) -> dict[str, Replay]:
    """Repeat the decision about each pod, by the name of the pod."""
    topologies = {each["metadata"]["name"]: each for each in kubectl.list("gputopologies")}
    return {
        pod["metadata"]["name"]: explain_placed(pod, topologies[pod["spec"]["nodeName"]]).replay
        for pod in pods
    }


def summary(found: Mapping[str, Replay]) -> str:
    """Return the number of pods by verdict and reason: "8 Unknown: not recorded"."""
    counts = Counter(": ".join((each.verdict.value, *each.reasons)) for each in found.values())
    return ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))


def differing(found: Mapping[str, Replay]) -> Iterator[str]:
    """Yield the pods for which the replay chooses other GPUs."""
    for name, each in found.items():
        if each.verdict is ReplayVerdict.DIFFERENT:
            yield f"explain {name}: {'; '.join(each.reasons)}"
