"""A GPUJob that measures its links before it starts."""

from datetime import datetime, timedelta
from typing import Any

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.link_runs import LinkRunResult, LinksResult
from gputopo.api.names import LINK_RESULT_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.profile import GPUProfile, GPUProfileStatus, Sample
from gputopo.profiles.comparable import MIN_SAMPLES
from gputopo.profiles.update import updated_status
from gputopo.runtime.times import timestamp
from support.builders.gpujobs import GPUS, job_pod
from support.operator.cluster_states import Situation
from support.profiling.pods import sample

BEST, WORST = "train-links-best", "train-links-worst"
LINKS = {"measure": ["Links"], "maxSeconds": 600}


class LinkSituation(Situation):
    """A GPUJob that measures links."""

    def __init__(self, **spec: Any) -> None:
        fields = {"workload": {"profile": "resnet50"}, "profiling": LINKS, **spec}
        super().__init__(**{name: value for name, value in fields.items() if value is not None})
        self.profile = GPUProfile()

    def after(self, seconds: int) -> "LinkSituation":
        """Let time pass."""
        now = datetime.fromisoformat(self.now) + timedelta(seconds=seconds)
        self.now = timestamp(now)
        return self

    def place(
        self, name: str, *, chosen: int = 48_000, worst: int = 12_000, pattern: str = "Ring"
    ) -> "LinkSituation":
        """Start the pod of a run on GPUs with these physical bandwidths."""
        pod = job_pod(self.runs[name], f"{name}-1", node="n1", gpus=GPUS, phase="Running")
        figures = PlacementAnnotation(
            policy="Preserve",
            pattern=pattern,
            sensitive=True,
            reason="Declared",
            physical_mb_per_s=chosen,
            physical_worst_mb_per_s=worst,
            physical_best_mb_per_s=48_000,
            aggregate_mb_per_s=100_000,
            preserved_mb_per_s=0,
        )
        pod["metadata"]["annotations"][PLACEMENT_ANNOTATION] = figures.dump()
        self.pods.append(pod)
        self.reconcile()
        return self

    def measure(self, name: str, rate: float, *, samples: int = MIN_SAMPLES) -> "LinkSituation":
        """Let the agent take samples of a run."""
        self.samples[f"uid-{name}-1"] = self.taken(name, rate, samples)
        self.reconcile()
        return self

    def taken(self, name: str, rate: float, samples: int = MIN_SAMPLES) -> list[Sample]:
        """Return samples of a run."""
        return [
            sample(
                8000,
                rate,
                pod_uid=f"uid-{name}-1",
                at=minute,
                gpus=3,
                effective_mb_per_s=48_000 if name == BEST else 12_000,
            )
            for minute in range(samples)
        ]

    def learn(self) -> "LinkSituation":
        """Let the operator compute the status of the GPUProfile from all samples."""
        assert self.profile is not None
        status = updated_status(
            self.profile.status,
            self.profile.spec,
            [each for found in self.samples.values() for each in found],
            name="resnet50",
            generation=1,
            now=self.now,
        )
        self.profile = self.profile.model_copy(update={"status": status})
        self.reconcile()
        return self

    def store(self) -> "LinkSituation":
        """Let the operator store all samples in the GPUProfile."""
        assert self.profile is not None
        status = GPUProfileStatus(
            samples=[each for found in self.samples.values() for each in found]
        )
        self.profile = self.profile.model_copy(update={"status": status})
        self.reconcile()
        return self

    def result(self, name: str) -> str:
        """Return the recorded result of a run."""
        text = self.runs[name]["metadata"]["annotations"][LINK_RESULT_ANNOTATION]
        parsed = LinkRunResult.parse(text)
        assert parsed is not None
        return parsed.result

    def links(self) -> LinksResult:
        """Return the result that the child Job has."""
        assert self.child is not None
        found = LinksResult.parse(self.child["metadata"]["annotations"][LINK_RESULT_ANNOTATION])
        assert found is not None
        return found

    def is_started(self) -> bool:
        return self.child is not None

    def message(self, type_: str = "Profiled") -> str:
        [found] = [each for each in self.status.conditions if each.type == type_]
        return found.message
