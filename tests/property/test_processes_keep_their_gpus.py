"""A node whose pods are deleted by force, garbage collected, or ended by kubelet, in any order.

The watch of pods, the watch of the node's status, and the agent that publishes it can each be late
by any time, and pods may be listed at any time. The ledger must never offer a GPU that a process
uses. At the end all other GPUs are free, as in a ledger that is filled from lists.
"""

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.topology.model import GpuIndex, indices_of
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView, parse_gpu_pod
from support.builders.objects import Document, at_version, container_states, pod, topology_object
from support.builders.topologies import DOUBLE, node

NODE = node(0, 1, 2, 4, links={(0, 1): DOUBLE}, name="n1")
COLLECTED = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]


def parsed(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


class Machine(RuleBasedStateMachine):
    """One ledger, one node, and the processes on it."""

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
        self.agent_publishes()
        self.status_is_shown()

    @rule(gpus=st.integers(1, 3))
    def pod_is_bound_to_free_gpus(self, gpus: int) -> None:
        usage = self._usage()
        free = list(indices_of(usage.free))
        if len(free) - usage.unknown < gpus:
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
        # The extender reserves the GPUs before it binds, so it knows its Bindings at once.
        self._show(len(self.changes))
        self.processes[f"uid-{name}"] = chosen
        # kubelet would not have started it on a GPU that a process uses.
        assert self._shared() == []

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), state=st.sampled_from(["running", "terminated"]))
    def pod_runs(self, data: st.DataObject, state: str) -> None:
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
    def pod_is_deleted_by_force(self, data: st.DataObject) -> None:
        self._delete(self._any(data))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), state=st.sampled_from(["running", "waiting", "terminated"]))
    def pod_is_garbage_collected(self, data: st.DataObject, state: str) -> None:
        uid = self._any(data)
        if self.pods[uid]["status"]["phase"] != "Failed":
            self._set(uid, "Failed", state, conditions=COLLECTED)
        self._delete(uid)

    @precondition(lambda self: self.processes.keys() - self.pods.keys())
    @rule(data=st.data())
    def process_of_a_deleted_pod_ends(self, data: st.DataObject) -> None:
        left = sorted(self.processes.keys() - self.pods.keys())
        del self.processes[data.draw(st.sampled_from(left))]

    @rule()
    def agent_publishes(self) -> None:
        """The agent has seen all changes of pods, and reads the processes."""
        users = {int(gpu): uid for uid, gpus in self.processes.items() for gpu in gpus}
        live = {uid for uid, it in self.pods.items() if it["status"]["phase"] != "Failed"}
        deleted = [gpu for gpu, uid in users.items() if uid not in live]
        self.published.append(
            topology_object("n1", NODE, used_by=users, deleted=deleted, pods_version=self.version)
        )

    @precondition(lambda self: self.published)
    @rule()
    def status_is_shown(self) -> None:
        self.node = parse_gpu_node(self.published.pop(0))
        self.ledger.put_topology(self.node)

    @rule(count=st.integers(1, 3))
    def watch_shows_changes(self, count: int) -> None:
        self._show(count)

    @rule()
    def pods_are_listed(self) -> None:
        epoch = self.ledger.begin_pod_list()
        self.ledger.replace_pods(self._records(), epoch=epoch, version=self.version)
        self.shown = len(self.changes)

    @rule(restarts=st.booleans())
    def minutes_pass(self, *, restarts: bool) -> None:
        """The extender and the agent have seen all changes; the extender may restart."""
        self._show(len(self.changes))
        self.agent_publishes()
        last = self.published[-1]
        if restarts:
            self.ledger = Ledger(lambda: self.now)
            self.published = [last]
            self.pods_are_listed()
        while self.published:
            self.status_is_shown()
        self.now += 1000

    @invariant()
    def no_gpu_of_a_process_is_offered(self) -> None:
        free = set(indices_of(self._usage().free))
        used = {gpu for gpus in self.processes.values() for gpu in gpus}
        assert free & used == set()

    def teardown(self) -> None:
        """End every process of a deleted pod, and show all changes."""
        for uid in self.processes.keys() - self.pods.keys():
            del self.processes[uid]
        self._show(len(self.changes))
        self.agent_publishes()
        while self.published:
            self.status_is_shown()
        usage = self._usage()
        live = {uid for uid, it in self.pods.items() if it["status"]["phase"] != "Failed"}
        assert set(indices_of(usage.used)) == {gpu for uid in live for gpu in self.processes[uid]}
        assert (usage.deleted, usage.unknown, usage.shared) == (0, 0, 0)
        listed = Ledger(lambda: 0.0)
        listed.put_topology(self.node)
        listed.replace_pods(self._records(), epoch=listed.begin_pod_list(), version=self.version)
        assert listed.usage("n1") == usage

    def _usage(self) -> NodeUsage:
        found = self.ledger.usage("n1")
        assert isinstance(found, NodeUsage)
        return found

    def _shared(self) -> list[GpuIndex]:
        gpus = [gpu for each in self.processes.values() for gpu in each]
        return [gpu for gpu in set(gpus) if gpus.count(gpu) > 1]

    def _any(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(sorted(self.pods))))

    def _records(self) -> list[PodView]:
        return [parsed(each) for each in self.pods.values()]

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
            view = parsed(document)
            if deleted:
                self.ledger.drop_pod(view.uid, view)
            else:
                self.ledger.put_pod(view)
        self.shown = min(len(self.changes), self.shown + count)


Machine.TestCase.settings = settings(deadline=None, max_examples=300, stateful_step_count=40)
TestProcesses = Machine.TestCase
