"""A small cluster in which the decision about GPUEnsembles works: nodes, GPUJobs and pods."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gputopo.api.names import (
    API_VERSION,
    ENSEMBLE_LABEL,
    JOB_LABEL,
    RESOURCE,
    SCHEDULER_NAME,
)
from gputopo.api.profile import Measurement, ScalingFact
from gputopo.runtime.times import timestamp
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.node_match import node_rules
from gputopo_operator.decision.ensemble.decide import decide_ensemble
from gputopo_operator.decision.ensemble.inputs import EnsembleObjects, ensemble_input
from gputopo_operator.model.ensembles import EnsembleInput, EnsembleWrites, PreprocessorWrites
from gputopo_operator.parse.ensemble_spec import parse_ensemble
from gputopo_operator.parse.ensembles import (
    parse_member_jobs,
    parse_remains,
)
from gputopo_operator.parse.preprocessors import parse_preprocessors, parse_service
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods
from support.builders.gpujobs import template
from support.operator.queue import node as gpu_topology

MICRO = 1_000_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def member(name: str, rates: Mapping[int, int | str] | None = None, **fields: Any) -> Document:
    """Return a member of an ensemble: a batch has one item, and the rates are declared."""
    known = [{"gpus": gpus, "itemsPerSecond": rate} for gpus, rate in (rates or {}).items()]
    return {
        "name": name,
        "batchSize": 1,
        "batchOf": "Job",
        "jobTemplate": {"spec": {"template": template()}},
        **({"rates": known} if known else {}),
        **fields,
    }


def ensemble(*members: Document, **spec: Any) -> Document:
    """Return a GPUEnsemble."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUEnsemble",
        "metadata": {
            "name": "search",
            "namespace": "default",
            "uid": "uid-search",
            "generation": 1,
            "resourceVersion": "1",
        },
        "spec": {"members": list(members), **spec},
    }


@dataclass
class EnsembleCluster:
    """Nodes, the GPUJobs of ensembles, and what Kubernetes does with them.

    Attributes:
        nodes: GPUs by node.
        raw: the GPUEnsemble.
        off: nodes that are switched off: their pods are deleted, but do not end.
        others: GPUs of each node that other pods use.
        stale: for each node, the UID of an ended pod that the agent still reports as a user of all
            its GPUs.
        measured: items per second of the pod of each member, as the agent measures it.
        facts: measured rates of GPUProfiles.
        preprocessors: Jobs of preprocessors.
        service: the Service of the preprocessor.
        starts: numbers of GPUs of each start of a member's program.
        blocked: for each member whose pod cannot be created, the error; its GPUJob reports it.
    """

    nodes: dict[str, int]
    raw: Document
    now: datetime = BEGIN
    off: set[str] = field(default_factory=set)
    others: dict[str, int] = field(default_factory=dict)
    stale: dict[str, str] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    facts: dict[str, list[ScalingFact]] = field(default_factory=dict)
    jobs: dict[str, Document] = field(default_factory=dict)
    children: dict[str, Document] = field(default_factory=dict)
    pods: dict[str, Document] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    preprocessors: dict[str, Document] = field(default_factory=dict)
    service: Document | None = None
    other_ensembles: dict[ObjectKey, dict[str, Any]] = field(default_factory=dict)
    other_pods: list[Document] = field(default_factory=list)
    other_uids: dict[ObjectKey, str] = field(
        default_factory=lambda: {ObjectKey("default", "other"): "uid-other"}
    )
    _uids: int = 0

    # The decision ------------------------------------------------------------------------------

    def found(self) -> EnsembleInput:
        """Return the input of the decision, from the objects of this cluster."""
        pods = [*self.pods.values(), *self._pods_of_others(), *self.other_pods]
        jobs = [*self.jobs.values()]
        uids = {
            ObjectKey.of(each): each["metadata"]["uid"]
            for each in jobs
            if "deletionTimestamp" not in each["metadata"]
        }
        by_ensemble: dict[ObjectKey, Any] = dict(parse_member_jobs(jobs, self.pods.values()))
        gpu_pods = parse_gpu_pods(pods, RESOURCE)
        nodes = {
            name: parse_gpu_node(self._topology(name, gpus)) for name, gpus in self.nodes.items()
        }
        objects = EnsembleObjects(
            jobs={**by_ensemble, **self.other_ensembles},
            remains=parse_remains(self.children.values(), pods, uids),
            pods=gpu_pods,
            cluster=cluster_of(nodes, gpu_pods),
            rules={name: node_rules(self._node(name)) for name in self.nodes},
            facts=self.facts,
            measured=self._measurements(),
            preprocessors=parse_preprocessors(self.preprocessors.values()),
            service=parse_service(self.service),
            ensembles=self.other_uids,
        )
        return ensemble_input(parse_ensemble(self.raw), objects, timestamp(self.now))

    def decide(self, writes: int | None = None) -> EnsembleWrites:
        """Decide and carry out the writes; an operator with ``writes`` is killed after as many."""
        plan = decide_ensemble(self.found())
        left = 10**9 if writes is None else writes
        if plan.status is not None and left > 0:
            self.raw["status"] = plan.status.to_json()
            left -= 1
        for deletion in plan.delete:
            if left > 0 and self.jobs[deletion.key.name]["metadata"]["uid"] == deletion.uid:
                self.jobs[deletion.key.name]["metadata"]["deletionTimestamp"] = timestamp(self.now)
                left -= 1
        if left > 0:
            self._write_preprocessor(plan.preprocessor)
        for manifest in plan.create.values():
            if left > 0:
                assert manifest["metadata"]["name"] not in self.jobs, "the name is unique"
                self._create_job(manifest)
                left -= 1
        if left > 0:
            events = (*plan.events, *plan.started.values())
            self.events += [f"{event.reason}: {event.note}" for event in events]
        return plan

    def run_on(self, rounds: int = 12) -> None:
        """Let operator and cluster work until nothing changes, at most this number of rounds."""
        for _ in range(rounds):
            plan = self.decide()
            changed = self.work()
            self.now += timedelta(seconds=1)
            if not changed and not plan.create and not plan.delete and plan.status is None:
                return

    # What Kubernetes does ------------------------------------------------------------------------

    def work(self) -> bool:
        """Let garbage collection, Job controller, scheduler and kubelet work; return changes."""
        before = copy.deepcopy((self.jobs, self.children, self.pods))
        self._collect()
        for name, job in self.jobs.items():
            ended = job.get("status", {}).get("phase") in {"Succeeded", "Failed"}
            if not ended and name not in self.children:
                self.children[name] = self._child(job)
            owner = self.children[name]["metadata"]["uid"] if name in self.children else ""
            if not ended and not any(self._is_owned(pod, owner) for pod in self.pods.values()):
                self._create_pod(name, job)
        for pod in self.pods.values():
            self._bind(pod)
        return before != (self.jobs, self.children, self.pods)

    def end(self, name: str, *, succeeded: bool = True) -> None:
        """End the program of a member, if it runs."""
        job = self.jobs[f"search-{name}"]
        for pod in [pod for pod in self.pods.values() if self._is_of(pod, job["metadata"]["name"])]:
            del self.pods[pod["metadata"]["name"]]
        self.set_result(name, "Succeeded" if succeeded else "Failed")

    def crash(self, name: str) -> None:
        """Let the program of a member fail: its pod is no longer live, and its GPUJob goes on."""
        (pod,) = [pod for pod in self.pods.values() if self._is_of(pod, f"search-{name}")]
        del self.pods[pod["metadata"]["name"]]
        self.stale[pod["spec"]["nodeName"]] = pod["metadata"]["uid"]

    def set_result(self, name: str, phase: str, message: str = "limit exceeded") -> None:
        """Set phase and condition of a member's GPUJob."""
        kind = "Complete" if phase == "Succeeded" else "Failed"
        self.jobs[f"search-{name}"]["status"] = {
            "phase": phase,
            "conditions": [condition(kind, "True", "BackoffLimitExceeded", message)],
        }

    def switch_off(self, node: str) -> None:
        """Switch a node off: Kubernetes deletes its pods, but nothing ends them."""
        self.off.add(node)
        for pod in self.pods.values():
            if pod["spec"].get("nodeName") == node:
                pod["metadata"]["deletionTimestamp"] = timestamp(self.now)

    def switch_on(self, node: str) -> None:
        """Switch a node on again: kubelet ends its deleted pods."""
        self.off.discard(node)
        for name, pod in list(self.pods.items()):
            on_node = pod["spec"].get("nodeName") == node
            if on_node and "deletionTimestamp" in pod["metadata"]:
                del self.pods[name]

    def suspend(self, *, suspended: bool) -> None:
        """Set ``spec.suspend``."""
        if self.raw["spec"].get("suspend", False) is not suspended:
            self.change(suspend=suspended)

    def change(self, **spec: Any) -> None:
        """Change fields of the spec."""
        self.raw["spec"] |= spec
        self.raw["metadata"]["generation"] += 1

    def phases(self) -> dict[str, str]:
        """Return the phase of each member in the status."""
        return {each["name"]: each["phase"] for each in self.status["members"]}

    def gpus(self) -> dict[str, int | None]:
        """Return the planned GPUs of each member in the status."""
        return {each["name"]: each.get("gpus") for each in self.status["members"]}

    def of(self, name: str) -> Document:
        """Return the status of a member."""
        return next(each for each in self.status["members"] if each["name"] == name)

    def condition(self, type_: str) -> Document:
        """Return a condition of the ensemble."""
        return next(each for each in self.status["conditions"] if each["type"] == type_)

    @property
    def status(self) -> Document:
        """Status of the ensemble."""
        found: Document = self.raw["status"]
        return found

    def running(self) -> dict[str, tuple[str, int]]:
        """Return node and GPUs of each GPUJob whose program runs, also on nodes that are off."""
        return {
            pod["metadata"]["labels"][JOB_LABEL]: (pod["spec"]["nodeName"], self._gpus_of(pod))
            for pod in self.pods.values()
            if pod["spec"].get("nodeName")
        }

    def working(self) -> list[str]:
        """Return the members whose programs can end: their GPUJobs exist and their nodes are on."""
        return [
            name.removeprefix("search-")
            for name, (node, _) in self.running().items()
            if name in self.jobs and node not in self.off
        ]

    # Parts ---------------------------------------------------------------------------------------

    def _write_preprocessor(self, writes: PreprocessorWrites) -> None:
        for manifest in writes.create:
            if manifest["kind"] == "Job":
                job = copy.deepcopy(manifest)
                job["metadata"]["uid"] = self._uid()
                self.preprocessors[job["metadata"]["name"]] = job
            else:
                self.service = {**manifest, "spec": {**manifest["spec"], "clusterIP": "10.96.3.7"}}
        for name, suspended in writes.suspend.items():
            self.preprocessors[name]["spec"]["suspend"] = suspended
        for name in writes.expire:
            self.preprocessors[name]["spec"]["ttlSecondsAfterFinished"] = 30

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _topology(self, name: str, gpus: int) -> Document:
        topology = gpu_topology(name, gpus)
        if name in self.stale:
            for gpu in topology["status"]["gpus"]:
                gpu["podUID"] = self.stale[name]
        return topology

    def _node(self, name: str) -> Document:
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
        spec = {"taints": [taint]} if name in self.off else {}
        return {"metadata": {"name": name, "labels": {"node": name}}, "spec": spec}

    def _create_job(self, manifest: Document) -> None:
        job = copy.deepcopy(manifest)
        job["metadata"] |= {"uid": self._uid(), "creationTimestamp": timestamp(self.now)}
        self.jobs[job["metadata"]["name"]] = job

    def _child(self, job: Document) -> Document:
        owner = {"uid": job["metadata"]["uid"], "controller": True}
        return {
            "metadata": {
                "name": job["metadata"]["name"],
                "namespace": "default",
                "uid": self._uid(),
                "labels": {ENSEMBLE_LABEL: self.raw["metadata"]["name"]},
                "ownerReferences": [owner],
            },
            "spec": {"backoffLimit": 1, "template": {}},
        }

    def _create_pod(self, name: str, job: Document) -> None:
        if error := self.blocked.get(name.removeprefix("search-")):
            job["status"] = {"conditions": [condition("Placed", "False", "PodNotCreated", error)]}
            return
        uid, limits = self._uid(), {RESOURCE: str(job["spec"]["gpusPerReplica"])}
        self.pods[f"pod-{uid}"] = {
            "metadata": {
                "name": f"pod-{uid}",
                "namespace": "default",
                "uid": uid,
                "resourceVersion": "1",
                "creationTimestamp": timestamp(self.now),
                "labels": {JOB_LABEL: name, ENSEMBLE_LABEL: self.raw["metadata"]["name"]},
                "ownerReferences": [
                    {"uid": self.children[name]["metadata"]["uid"], "controller": True}
                ],
            },
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "affinity": job["spec"]["template"]["spec"]["affinity"],
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": {"phase": "Pending"},
        }

    def _bind(self, pod: Document) -> None:
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return
        affinity = pod["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        node = terms[0]["matchFields"][-1]["values"][0]
        if node in self.off or self.free(node) < self._gpus_of(pod):
            return
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running", "startTime": timestamp(self.now)}
        self.starts.setdefault(pod["metadata"]["labels"][JOB_LABEL], []).append(self._gpus_of(pod))

    def free(self, node: str) -> int:
        """Return the GPUs of a node that no pod uses."""
        used = sum(self._gpus_of(pod) for pod in self.pods.values() if self._on(pod, node))
        return self.nodes[node] - used - self.others.get(node, 0)

    def _collect(self) -> None:
        """Delete GPUJobs that are being deleted, then Jobs and pods without owners."""
        for name, job in list(self.jobs.items()):
            if "deletionTimestamp" in job["metadata"]:
                del self.jobs[name]
        owners = {job["metadata"]["uid"] for job in self.jobs.values()}
        self._drop_orphans(self.children, owners)
        owners = {child["metadata"]["uid"] for child in self.children.values()}
        for name, pod in list(self.pods.items()):
            if pod["metadata"]["ownerReferences"][0]["uid"] in owners:
                continue
            pod["metadata"]["deletionTimestamp"] = timestamp(self.now)
            if pod["spec"].get("nodeName") not in self.off:
                del self.pods[name]

    @staticmethod
    def _drop_orphans(objects: dict[str, Document], owners: Iterable[str]) -> None:
        for name, each in list(objects.items()):
            if each["metadata"]["ownerReferences"][0]["uid"] not in owners:
                del objects[name]

    def _pods_of_others(self) -> list[Document]:
        return [
            {
                "metadata": {
                    "name": f"other-{node}",
                    "namespace": "default",
                    "uid": f"other-{node}",
                    "resourceVersion": "1",
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "main", "resources": {"limits": {RESOURCE: str(n)}}}],
                },
                "status": {"phase": "Running"},
            }
            for node, n in self.others.items()
            if n
        ]

    def _measurements(self) -> dict[str, Measurement]:
        found = {}
        for pod in self.pods.values():
            name = pod["metadata"]["labels"][JOB_LABEL].removeprefix("search-")
            if name in self.measured and pod["spec"].get("nodeName"):
                uid = pod["metadata"]["uid"]
                found[uid] = Measurement(
                    namespace="default",
                    pod=pod["metadata"]["name"],
                    pod_uid=uid,
                    container="main",
                    gpus=self._gpus_of(pod),
                    source="SDK",
                    state="Steady",
                    micro_steps_per_second=round(self.measured[name] * MICRO),
                    ci_permille=10,
                )
        return found

    @staticmethod
    def _is_of(pod: Document, job: str) -> bool:
        return bool(pod["metadata"]["labels"][JOB_LABEL] == job)

    @staticmethod
    def _is_owned(pod: Document, uid: str) -> bool:
        return any(owner["uid"] == uid for owner in pod["metadata"]["ownerReferences"])

    @staticmethod
    def _on(pod: Document, node: str) -> bool:
        return bool(pod["spec"].get("nodeName") == node)

    @staticmethod
    def _gpus_of(pod: Document) -> int:
        return int(pod["spec"]["containers"][0]["resources"]["limits"][RESOURCE])


def condition(type_: str, status: str, reason: str, message: str = "") -> Document:
    """Return a condition of an object."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(BEGIN),
    }
