"""A node whose pods are deleted by force, garbage collected, or ended by kubelet, in any order.

The watch of pods, the watch of the node's status, and the agent that publishes it are each as late
as the machine likes; pods may also be listed at any time. The ledger must never offer a GPU that a
process uses; and in the end all other GPUs are free, as in a ledger that is built from lists.
"""

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from builders import DOUBLE, node
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.topology.model import GpuIndex, indices_of
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.topologies import parse_node
from gputopo_extender.state.usage import NodeUsage
from gputopo_kube.pods import PodView, parse_gpu_pod
from objects import Document, at_version, container_states, pod, topology_object

NODE = node(0, 1, 2, 4, links={(0, 1): DOUBLE}, name="n1")
COLLECTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]


def trimmed(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


class Machine(RuleBasedStateMachine):
    """One ledger, one node, and what really runs on it."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.made = 0
        self.pods: dict[str, Document] = {}
        self.changes: list[tuple[bool, Document]] = []
        self.shown = 0
        self.processes: dict[str, list[GpuIndex]] = {}
        self.published: list[Document] = []
        self.now = 0.0
        self.ledger = Ledger(lambda: self.now)
        self.the_agent_publishes()
        self.the_status_is_shown()

    @rule(gpus=st.integers(1, 3))
    def a_pod_is_bound_where_the_ledger_says(self, gpus: int) -> None:
        book = self._book()
        free = list(indices_of(book.free))
        if len(free) - book.unknown < gpus:
            return
        self.made += 1
        name = f"p{self.made}"
        chosen = free[:gpus]
        annotation = GpusAnnotation(
            uid=f"uid-{name}",
            node="n1",
            generation=1,
            containers={"main": [NODE.uuid_of[gpu] for gpu in chosen]},
        )
        annotations = {GPUS_ANNOTATION: annotation.dump()}
        self._put(pod(name, gpus, node="n1", annotations=annotations))
        # The extender reserves the GPUs before it writes: it knows at once what it has bound.
        self._show(len(self.changes))
        self.processes[f"uid-{name}"] = chosen
        # kubelet would not have started it on a GPU that a process uses.
        assert self._shared() == []

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), state=st.sampled_from(["running", "terminated"]))
    def a_pod_runs(self, data: st.DataObject, state: str) -> None:
        """A container that has terminated is restarted, which kubelet reports later."""
        self._set(self._any(data), "Running", state)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), is_deleted=st.booleans())
    def kubelet_ends_a_pod(self, data: st.DataObject, *, is_deleted: bool) -> None:
        """It reports the end when the processes are gone, and deletes the object then."""
        uid = self._any(data)
        self.processes.pop(uid, None)
        self._set(uid, "Failed", "terminated")
        if is_deleted:
            self._delete(uid)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def a_pod_is_deleted_by_force(self, data: st.DataObject) -> None:
        self._delete(self._any(data))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), state=st.sampled_from(["running", "waiting", "terminated"]))
    def a_pod_is_garbage_collected(self, data: st.DataObject, state: str) -> None:
        uid = self._any(data)
        if self.pods[uid]["status"]["phase"] != "Failed":
            self._set(uid, "Failed", state, conditions=COLLECTED)
        self._delete(uid)

    @precondition(lambda self: self.processes.keys() - self.pods.keys())
    @rule(data=st.data())
    def a_process_of_a_deleted_pod_ends(self, data: st.DataObject) -> None:
        left = sorted(self.processes.keys() - self.pods.keys())
        del self.processes[data.draw(st.sampled_from(left))]

    @rule()
    def the_agent_publishes(self) -> None:
        """It has seen all pods up to now, and looks at the processes."""
        held = {int(gpu): uid for uid, gpus in self.processes.items() for gpu in gpus}
        live = {uid for uid, it in self.pods.items() if it["status"]["phase"] != "Failed"}
        deleted = [gpu for gpu, uid in held.items() if uid not in live]
        self.published.append(
            topology_object("n1", NODE, held=held, deleted=deleted, pods_version=self.version)
        )

    @precondition(lambda self: self.published)
    @rule()
    def the_status_is_shown(self) -> None:
        self.ledger.put_topology(parse_node(self.published.pop(0)))

    @rule(count=st.integers(1, 3))
    def the_watch_shows_changes(self, count: int) -> None:
        self._show(count)

    @rule()
    def pods_are_listed(self) -> None:
        epoch = self.ledger.begin_pod_list()
        self.ledger.replace_pods(self._records(), epoch=epoch, version=self.version)
        self.shown = len(self.changes)

    @rule(restarts=st.booleans())
    def minutes_pass(self, *, restarts: bool) -> None:
        """Everybody has seen everything meanwhile; the extender may be a new one."""
        self._show(len(self.changes))
        self.the_agent_publishes()
        last = self.published[-1]
        if restarts:
            self.ledger = Ledger(lambda: self.now)
            self.published = [last]
            self.pods_are_listed()
        while self.published:
            self.the_status_is_shown()
        self.now += 1000

    @invariant()
    def no_gpu_of_a_process_is_offered(self) -> None:
        free = set(indices_of(self._book().free))
        used = {gpu for gpus in self.processes.values() for gpu in gpus}
        assert free & used == set()

    def teardown(self) -> None:
        """Let every process of a deleted pod end, and everybody see that."""
        for uid in self.processes.keys() - self.pods.keys():
            del self.processes[uid]
        self._show(len(self.changes))
        self.the_agent_publishes()
        while self.published:
            self.the_status_is_shown()
        book = self._book()
        live = {uid for uid, it in self.pods.items() if it["status"]["phase"] != "Failed"}
        assert set(indices_of(book.used)) == {gpu for uid in live for gpu in self.processes[uid]}
        assert (book.deleted, book.unknown, book.shared) == (0, 0, 0)
        listed = Ledger(lambda: 0.0)
        listed.put_topology(self.ledger._nodes["n1"])
        listed.replace_pods(self._records(), epoch=listed.begin_pod_list(), version=self.version)
        assert listed.usage("n1") == book

    def _book(self) -> NodeUsage:
        found = self.ledger.usage("n1")
        assert isinstance(found, NodeUsage)
        return found

    def _shared(self) -> list[GpuIndex]:
        gpus = [gpu for each in self.processes.values() for gpu in each]
        return [gpu for gpu in set(gpus) if gpus.count(gpu) > 1]

    def _any(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(sorted(self.pods))))

    def _records(self) -> list[PodView]:
        return [trimmed(each) for each in self.pods.values()]

    def _set(self, uid: str, phase: str, state: str, **status: Any) -> None:
        document = copy.deepcopy(self.pods[uid])
        if document["status"]["phase"] == "Failed":
            return
        states = {"containerStatuses": container_states(state)}
        self._put({**document, "status": {"phase": phase, **states, **status}})

    def _put(self, document: Document) -> None:
        self.version += 1
        stored = at_version(document, self.version)
        self.pods[stored["metadata"]["uid"]] = stored
        self.changes.append((False, stored))

    def _delete(self, uid: str) -> None:
        self.version += 1
        self.changes.append((True, at_version(self.pods.pop(uid), self.version)))

    def _show(self, count: int) -> None:
        for deleted, document in self.changes[self.shown : self.shown + count]:
            record = trimmed(document)
            if deleted:
                self.ledger.drop_pod(record.uid, record)
            else:
                self.ledger.put_pod(record)
        self.shown = min(len(self.changes), self.shown + count)


Machine.TestCase.settings = settings(deadline=None, max_examples=300, stateful_step_count=40)
TestProcesses = Machine.TestCase
