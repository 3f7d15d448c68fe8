"""Reads the objects that the decisions about all GPUEnsembles have in common.

A namespace can have thousands of ensembles, and each of them is decided every ten seconds. So
decisions share what was read, until an object of an ensemble changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Final

from gputopo.api.names import ENSEMBLE_PREPROCESSOR_LABEL
from gputopo.api.profile import Measurement
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import DeniedError
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.model.ensembles import MemberJob
from gputopo_operator.model.queued import GpuPod
from gputopo_operator.parse.ensembles import parse_member_jobs, parse_remains
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods

SHARED_SECONDS: Final = 2.0
"""For how long decisions use the same pods, Jobs and GPUJobs, if no object of an ensemble changes.

Only pods of others can change meanwhile: then a member waits for its GPUs, and is withdrawn."""


@dataclass(frozen=True, slots=True)
class EnsembleSnapshot:
    """What was read; the attributes are as in ``EnsembleObjects``.

    Attributes:
        preprocessors: batch/v1 Jobs of preprocessors.
        uids: UIDs of all GPUEnsembles, if several of them have members.
    """

    jobs: Mapping[ObjectKey, Mapping[str, MemberJob]]
    remains: Mapping[ObjectKey, str]
    pods: tuple[GpuPod, ...]
    cluster: ClusterPicture
    rules: Mapping[str, Document]
    preprocessors: tuple[Document, ...]
    measured: Mapping[str, Measurement]
    uids: Mapping[ObjectKey, str]


class EnsembleSnapshots:
    """Reads snapshots; for one thread, but any thread may call ``expire``."""

    def __init__(
        self,
        api: EnsembleApi,
        nodes: NodeStore,
        resource: str,
        shared_seconds: float,
    ) -> None:
        """Use a snapshot for ``shared_seconds``; 0 reads a new one each time."""
        self._api = api
        self._nodes = nodes
        self._resource = resource
        self._shared_seconds = shared_seconds
        self._newest: tuple[float, EnsembleSnapshot] | None = None
        self._changes = 0

    def expire(self) -> None:
        """Read everything again for the next decision: an object has changed."""
        self._changes += 1
        self._newest = None

    def read(self, ensemble: ObjectKey) -> EnsembleSnapshot:
        """Return what is needed to decide about an ensemble."""
        if self._newest is not None and monotonic() < self._newest[0]:
            return self._newest[1]
        changes, until = self._changes, monotonic() + self._shared_seconds
        snapshot = self._read(ensemble)
        if changes == self._changes:
            self._newest = until, snapshot
        return snapshot

    def _read(self, ensemble: ObjectKey) -> EnsembleSnapshot:
        # Pods are read first, then Jobs, then GPUJobs, then other GPUEnsembles: a pod never lacks
        # its owners because of a member that started meanwhile.
        if not self._nodes.rules.is_read:
            raise DeniedError("the Nodes were not read, so no node is known to suit a member", 403)
        pods = self._api.pods()
        children = self._api.member_children()
        jobs = self._api.member_jobs()
        by_ensemble = parse_member_jobs(jobs, pods)
        has_others = self._shared_seconds > 0 or bool(by_ensemble.keys() - {ensemble})
        uids = {
            ObjectKey.of(job): str(job["metadata"]["uid"])
            for job in jobs
            if "deletionTimestamp" not in job["metadata"]
        }
        gpu_pods = parse_gpu_pods(pods, self._resource)
        return EnsembleSnapshot(
            jobs=by_ensemble,
            remains=parse_remains(children, pods, uids),
            pods=gpu_pods,
            cluster=cluster_of(self._nodes.gpus(), gpu_pods),
            rules=self._nodes.rules.values(),
            preprocessors=tuple(
                job for job in children if ENSEMBLE_PREPROCESSOR_LABEL in job["metadata"]["labels"]
            ),
            measured=dict(
                chain.from_iterable(
                    each.measured.items() for each in self._nodes.reports.values().values()
                )
            ),
            uids=self._api.ensemble_uids() if has_others else {},
        )
