"""Compares what is learnt with the truth, sample by sample and fact by fact."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputopo.api.annotations import parse_gpus
from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import PROFILE_ANNOTATION
from gputopo.api.profile import GPUProfileStatus, Sample
from learntest import laws, profiles
from learntest.bench import Bench
from learntest.links import describe
from soaktest.client import Object

WRONG_WORKLOAD = "samples of a wrong workload"
WRONG_RATE = "samples with a wrong rate"
WRONG_FACT = "wrong facts"
LOST = "lost profiles"

_RATE_TOLERANCE = 0.15
"""A machine with two cores that restarts kubelets delays some steps."""

_POINTS = 10.0


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload on one node.

    Attributes:
        percent: how much slower it is on the worst links.
        topology: ``GPUTopology.spec`` of the node.
    """

    profile: str
    node: str
    percent: float
    topology: Object

    def law(self, seed: int) -> dict[str, Any]:
        """Return the law of one run."""
        return laws.link_law(self.topology, self.percent, seed)

    @property
    def measuring(self) -> MeasuringRequest:
        """What its pods request."""
        return MeasuringRequest(profile=self.profile)

    def rate(self, gpus: tuple[str, ...]) -> float:
        """Return the true steps per second on these two GPUs."""
        law = self.law(0)
        return laws.steps_per_second(law, law["links"][" ".join(sorted(gpus))])


@dataclass(frozen=True, slots=True)
class _Pod:
    profile: str
    gpus: tuple[str, ...]


class Judge:
    """Looks at pods and GPUProfiles again and again."""

    def __init__(self, bench: Bench, workloads: Mapping[str, Workload]) -> None:
        self._bench, self._workloads = bench, workloads
        self._pods: dict[str, _Pod] = {}
        self._samples: dict[tuple[str, str, str], Sample] = {}
        self._known: dict[str, GPUProfileStatus] = {}

    def look(self) -> None:
        """Compare all samples and facts that are known now with the truth."""
        for pod in self._bench.client.get(self._bench.pods)["items"]:
            self._remember(pod)
        found = {
            each["metadata"]["name"]: profiles.status_of(each) for each in self._bench.profiles()
        }
        for profile, status in found.items():
            for sample in status.samples:
                self._judge_sample(profile, sample)
            self._judge_fact(profile, status)
        self._judge_lost(found)
        self._known = found

    def report(self) -> None:
        """Report how much was compared."""
        kinds = (WRONG_WORKLOAD, WRONG_RATE, WRONG_FACT, LOST)
        findings = self._bench.journal.findings
        self._bench.seen |= {kind: len(findings.get(kind, ())) for kind in kinds}
        self._bench.seen["samples compared"] = len(self._samples)
        self._bench.seen["pods"] = len(self._pods)
        for profile, status in sorted(self._known.items()):
            truth = self._workloads[profile].percent
            fact = describe(profiles.link_fact(status))
            self._bench.seen[f"{profile}, truth {truth:g} %"] = fact

    def _remember(self, pod: Object) -> None:
        annotations = pod["metadata"].get("annotations", {})
        gpus = parse_gpus(annotations)
        if gpus is not None:
            uuids = tuple(uuid for each in gpus.containers.values() for uuid in each)
            profile = annotations[PROFILE_ANNOTATION]
            self._pods[pod["metadata"]["uid"]] = _Pod(profile, uuids)

    def _judge_sample(self, profile: str, sample: Sample) -> None:
        if sample.key in self._samples:
            return
        self._samples[sample.key] = sample
        pod = self._pods.get(sample.pod_uid)
        if pod is None or pod.profile != profile:
            self._bench.finding(WRONG_WORKLOAD, f"{profile}: {sample} of {pod}")
            return
        truth = self._workloads[profile].rate(pod.gpus)
        error = sample.steps_per_second / truth - 1
        self._bench.journal.note(f"sample of {profile}: {error:+.3f} {sample}")
        if abs(error) > _RATE_TOLERANCE:
            self._bench.finding(WRONG_RATE, f"{profile}: {error:+.1%} of {truth:.2f}/s: {sample}")

    def _judge_fact(self, profile: str, status: GPUProfileStatus) -> None:
        fact, truth = profiles.link_fact(status), self._workloads[profile].percent
        if fact is None:
            return
        self._bench.journal.count("facts compared")
        wrong = fact.sensitivity not in {"Unknown", profiles.kind_of(truth)}
        if wrong or (fact.sensitivity != "Unknown" and abs(fact.percent - truth) > _POINTS):
            self._bench.finding(WRONG_FACT, f"{profile}, truth {truth:g} %: {describe(fact)}")

    def _judge_lost(self, found: Mapping[str, GPUProfileStatus]) -> None:
        for profile, before in self._known.items():
            now = found.get(profile, GPUProfileStatus())
            if len(now.samples) < len(before.samples):
                self._bench.finding(
                    LOST, f"{profile}: {len(before.samples)} samples, then {len(now.samples)}"
                )
            if profiles.link_fact(before) and not profiles.link_fact(now):
                self._bench.finding(LOST, f"{profile}: the fact is gone")
