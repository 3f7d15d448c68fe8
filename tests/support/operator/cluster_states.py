"""A GPUJob and its objects in the cluster, for tests of the operator's decision."""

from dataclasses import replace
from typing import Any

from gputopo.api.names import LINK_RUN_LABEL
from gputopo.api.profile import GPUProfile, Measurement, Sample
from gputopo.api.v1alpha1 import GPUJobStatus
from gputopo_operator.decision.decide import decide
from gputopo_operator.model.jobs import (
    GpuJobState,
    LinkSet,
    PodDefaults,
    ReconcilePlan,
    WriteErrors,
)
from gputopo_operator.parse.jobs import (
    parse_child_job,
    parse_gpu_job,
    parse_job_pod,
    parse_link_run,
)
from support.builders.gpujobs import Document, gpu_job, job_pod

DEFAULTS = PodDefaults()
START = "2026-01-01T00:00:00Z"


class Situation:
    """A GPUJob and its objects. Methods change them; ``plan`` returns the decision."""

    def __init__(self, **spec: Any) -> None:
        self.job = gpu_job(**spec)
        self.job["metadata"] |= {"uid": "uid-train", "generation": 1, "resourceVersion": "5"}
        self.child: Document | None = None
        self.pods: list[Document] = []
        self.observed: dict[str, tuple[str, ...]] = {}
        self.measured: dict[str, Measurement] = {}
        self.profile: GPUProfile | None = None
        self.errors = WriteErrors()
        self.now = START
        self.children = 0
        self.runs: dict[str, Document] = {}
        self.samples: dict[str, list[Sample]] = {}
        self.queued = False

    def state(self) -> GpuJobState:
        return GpuJobState(
            job=parse_gpu_job(self.job),
            child=parse_child_job(self.child) if self.child else None,
            pods=tuple(parse_job_pod(pod) for pod in self.pods),
            observed=self.observed,
            measured=self.measured,
            profile=self.profile,
            now=self.now,
            errors=self.errors,
            link_runs={
                LinkSet(run["metadata"]["labels"][LINK_RUN_LABEL]): parse_link_run(run)
                for run in self.runs.values()
            },
            samples=self.samples,
            queued=self.queued,
        )

    def plan(self) -> ReconcilePlan:
        """Return the plan for the current state, without writing."""
        return decide(self.state(), DEFAULTS)

    def reconcile(self) -> ReconcilePlan:
        """Carry out plans until one is empty; return the first."""
        first = plan = self.plan()
        for _ in range(3):
            self.write(plan)
            self.errors = replace(self.errors, job="", job_is_permanent=False)
            plan = self.plan()
            if plan == ReconcilePlan(recheck_after_seconds=plan.recheck_after_seconds):
                return first
        raise AssertionError(f"the decision never returns an empty plan: {plan}")

    def write(self, plan: ReconcilePlan) -> None:
        if plan.create_job is not None:
            self.children += 1
            identity = {"uid": f"uid-job-{self.children}", "resourceVersion": "6"}
            metadata = {**plan.create_job["metadata"], **identity}
            self.child = {**plan.create_job, "metadata": metadata}
        if plan.create_profile is not None and not self.errors.profile:
            self.profile = GPUProfile()
        if plan.job_patch is not None:
            assert self.child is not None
            self.child["spec"] |= plan.job_patch["spec"]
        if plan.create_link_run is not None and not self.errors.link_run:
            metadata = plan.create_link_run["metadata"]
            uid = f"uid-{metadata['name']}"
            own = {"uid": uid, "resourceVersion": "7", "creationTimestamp": self.now}
            run = {**plan.create_link_run, "metadata": {**metadata, **own}}
            self.runs[metadata["name"]] = run
        if plan.link_run_patch is not None:
            name, patch = plan.link_run_patch
            self.runs[name]["metadata"]["annotations"] = patch["metadata"]["annotations"]
            self.runs[name]["spec"] |= patch["spec"]
            self.pods = [pod for pod in self.pods if not is_owned(pod, self.runs[name])]
        if plan.pod_patch is not None and not self.errors.pod_patch:
            name, patch = plan.pod_patch
            [changed] = [pod for pod in self.pods if pod["metadata"]["name"] == name]
            annotations = changed["metadata"]["annotations"] | patch["metadata"]["annotations"]
            changed["metadata"]["annotations"] = {
                name: text for name, text in annotations.items() if text is not None
            }
        if plan.status is not None:
            self.job["status"] = plan.status.to_json()

    def pod(self, name: str = "train-1", **fields: Any) -> "Situation":
        assert self.child is not None
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]
        self.pods.append(job_pod(self.child, name, **fields))
        return self

    def job_ended(self, type_: str, reason: str) -> "Situation":
        assert self.child is not None
        condition = {"type": type_, "status": "True", "reason": reason, "message": "by the Job"}
        self.child["status"] = {"conditions": [condition]}
        return self

    @property
    def status(self) -> GPUJobStatus:
        return GPUJobStatus.model_validate(self.job["status"])

    def condition(self, type_: str) -> tuple[str, str]:
        """Return status and reason of a condition."""
        (found,) = [each for each in self.status.conditions if each.type == type_]
        return found.status, found.reason


def is_owned(pod: Document, job: Document) -> bool:
    """Return whether the Job controls the pod."""
    owners = pod["metadata"].get("ownerReferences", [])
    return any(owner["uid"] == job["metadata"]["uid"] for owner in owners)
