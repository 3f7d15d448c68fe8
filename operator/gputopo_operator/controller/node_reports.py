"""Keeps the newest report of every node, for all threads of the operator."""

import threading
from collections.abc import Iterable

from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.decision.reports import NO_REPORT, changes, known_pods
from gputopo_operator.parse import parse_report, parse_samples
from gputopo_operator.workloads import NodeReport, PodReport, ProfileEvidence, ReportChanges


class NodeReports:
    """The reports by node. Each GPUTopology that is read replaces the report of its node.

    So lost, late and repeated events have no lasting effect, and after a restart the first list of
    GPUTopologies contains all samples that may be missing in a GPUProfile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: dict[str, NodeReport] = {}
        self._known: dict[str, dict[str, PodReport]] = {}

    def replace(self, topology: Document) -> ReportChanges:
        """Replace the report of a node; return what the new report concerns."""
        node, after = topology["metadata"]["name"], parse_report(topology)
        with self._lock:
            before, known = self._reports.get(node, NO_REPORT), self._known.get(node, {})
            changed = changes(known, before, after)
            self._reports[node] = after
            self._known[node] = known_pods(known, after, changed)
        return changed

    def drop(self, nodes: Iterable[str]) -> None:
        """Forget the reports of deleted nodes."""
        with self._lock:
            for node in nodes:
                self._reports.pop(node, None)
                self._known.pop(node, None)

    def nodes(self) -> set[str]:
        """Return the nodes with a report."""
        with self._lock:
            return set(self._reports)

    def evidence(self, profile: ObjectKey) -> ProfileEvidence:
        """Return what all nodes report of one workload."""
        with self._lock:
            reports = tuple(self._reports.values())
        texts = {text for report in reports for text in report.samples.get(profile, ())}
        running = (report.running.get(profile, frozenset()) for report in reports)
        return ProfileEvidence(parse_samples(texts), frozenset().union(*running))
