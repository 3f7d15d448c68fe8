"""A GPUJob and what the cluster has of it, for tests of the operator's decision."""

from typing import Any

from gpujobs import Document, gpu_job, job_pod
from gputopo.api.v1alpha1 import GPUJobStatus, GPUProfileSpec
from gputopo_operator.decision.decide import decide
from gputopo_operator.model import Plan, Refusal, Rules, Snapshot
from gputopo_operator.parse import read_child, read_gpu_job, read_pod

RULES = Rules()
START = "2026-01-01T00:00:00Z"


class Situation:
    """A GPUJob and what the cluster has of it; changed by words, looked at by ``plan``."""

    def __init__(self, **spec: Any) -> None:
        self.job = gpu_job(**spec)
        self.job["metadata"] |= {"uid": "uid-train", "generation": 1, "resourceVersion": "5"}
        self.child: Document | None = None
        self.pods: list[Document] = []
        self.observed: dict[str, tuple[str, ...]] = {}
        self.profile: GPUProfileSpec | None = None
        self.refusal: Refusal | None = None
        self.profile_error = ""
        self.now = START
        self.children = 0

    def snapshot(self) -> Snapshot:
        return Snapshot(
            job=read_gpu_job(self.job),
            child=read_child(self.child) if self.child else None,
            pods=tuple(read_pod(pod) for pod in self.pods),
            observed=self.observed,
            profile=self.profile,
            refusal=self.refusal,
            now=self.now,
            profile_error=self.profile_error,
        )

    def plan(self) -> Plan:
        """Return the plan of this moment, without carrying it out."""
        return decide(self.snapshot(), RULES)

    def settle(self) -> Plan:
        """Carry out plans until one is empty, and return the first."""
        first = plan = self.plan()
        for _ in range(3):
            self.carry_out(plan)
            self.refusal = None
            plan = self.plan()
            if plan == Plan(recheck_after_s=plan.recheck_after_s):
                return first
        raise AssertionError(f"never comes to rest: {plan}")

    def carry_out(self, plan: Plan) -> None:
        if plan.create_job is not None:
            self.children += 1
            identity = {"uid": f"uid-job-{self.children}", "resourceVersion": "6"}
            metadata = {**plan.create_job["metadata"], **identity}
            self.child = {**plan.create_job, "metadata": metadata}
        if plan.create_profile is not None and not self.profile_error:
            self.profile = GPUProfileSpec()
        if plan.job_patch is not None:
            assert self.child is not None
            self.child["spec"] |= plan.job_patch["spec"]
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

    def said(self, type_: str) -> tuple[str, str]:
        """Return status and reason of a condition."""
        (found,) = [each for each in self.status.conditions if each.type == type_]
        return found.status, found.reason
