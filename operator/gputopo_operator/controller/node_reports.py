"""Keeps what the GPUTopology of every node reports, for all threads of the operator."""

import threading

from gputopo.api.profile import Measurement
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.decision.reports import NO_REPORT, changes, known_pods
from gputopo_operator.model.workloads import NodeReport, PodReport, ProfileEvidence, ReportChanges
from gputopo_operator.parse.jobs import parse_report
from gputopo_operator.parse.samples import decode_samples


class NodeReports:
    """The newest report of each node. A report is parsed from the node's GPUTopology.

    A GPUTopology contains the complete report, so a lost, late or repeated watch event has no
    lasting effect. After a restart, the operator gets all reports from a list of GPUTopologies.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: dict[str, NodeReport] = {}
        self._known: dict[str, dict[str, PodReport]] = {}
        self._uids: dict[str, str] = {}
        self._changed = set[str]()

    def begin_list(self) -> dict[str, str]:
        """Begin a list of all GPUTopologies; return the same as ``uids``."""
        with self._lock:
            self._changed.clear()
            return dict(self._uids)

    def replace(self, topology: Document, *, listed: bool = False) -> ReportChanges:
        """Replace a node's report; return the GPUJobs and GPUProfiles to update because of it.

        If the GPUTopology is ``listed``, an event since ``begin_list`` wins: it may be newer.
        """
        node, after = topology["metadata"]["name"], parse_report(topology)
        with self._lock:
            if not listed:
                self._changed.add(node)
            elif node in self._changed:
                return ReportChanges()
            before, known = self._reports.get(node, NO_REPORT), self._known.get(node, {})
            changed = changes(known, before, after)
            self._reports[node] = after
            self._uids[node] = topology["metadata"]["uid"]
            self._known[node] = known_pods(known, after, changed)
        return changed

    def drop(self, node: str, uid: str) -> None:
        """Forget the report of a deleted GPUTopology, unless it was created again.

        kopf orders only the events of one object, so the deletion may come after the creation of
        the next GPUTopology of the node.
        """
        with self._lock:
            self._changed.add(node)
            if self._uids.get(node) == uid:
                del self._reports[node], self._known[node], self._uids[node]

    def uids(self) -> dict[str, str]:
        """Return the UIDs of the GPUTopologies with a report, by node."""
        with self._lock:
            return dict(self._uids)

    def measured(self, node: str) -> dict[str, Measurement]:
        """Return the newest measurements of a node, by UID of the pod."""
        with self._lock:
            report = self._reports.get(node, NO_REPORT)
        return {uid: pod.measured for uid, pod in report.pods.items() if pod.measured}

    def evidence(self, profile: ObjectKey) -> ProfileEvidence:
        """Return what all nodes report of the workload with this GPUProfile."""
        with self._lock:
            reports = tuple(self._reports.values())
        texts = {text for report in reports for text in report.samples.get(profile, ())}
        running = (report.running.get(profile, frozenset()) for report in reports)
        return ProfileEvidence(decode_samples(texts), frozenset().union(*running))
