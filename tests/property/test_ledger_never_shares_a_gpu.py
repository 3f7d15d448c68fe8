"""The ledger under any order of binds, faults, deletions, restarts, and late events.

The machine plays the API server: it carries Bindings out or not, answers or not, and shows its
changes when it likes. Two things must hold at all times: no GPU is annotated on two live pods,
and a ledger built from lists has the same books as one kept by events.
"""

import json
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from builders import DOUBLE, node
from gputopo.api.enums import PolicyName
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo_extender.book import Book
from gputopo_extender.decide import Decision, decide
from gputopo_extender.evaluate import Misfit, answers_of, evaluation, match_on
from gputopo_extender.ledger import Ledger, Progress
from gputopo_extender.pods import PodRecord, record_of
from gputopo_extender.request import Ask, read
from gputopo_extender.topologies import NodeRecord, node_of
from objects import Document, pod, topology_object

NAMES = ("n1", "n2")
RESULTS = ("answered", "answered", "silent after", "stuck", "lost", "refused")
MACHINES = {name: node(0, 1, 2, 4, links={(0, 1): DOUBLE}, name=name) for name in NAMES}


@dataclass(slots=True)
class Server:
    """What the API server stores, and the changes that no watch has shown yet."""

    pods: dict[str, Document] = field(default_factory=dict)
    unseen: list[tuple[str, Document]] = field(default_factory=list)

    def put(self, document: Document) -> None:
        self.pods[document["metadata"]["uid"]] = document
        self.unseen.append(("MODIFIED", document))

    def delete(self, uid: str) -> None:
        self.unseen.append(("DELETED", self.pods.pop(uid)))

    def bind(self, decision: Decision) -> bool:
        known = self.pods.get(decision.uid)
        if known is None or known["spec"].get("nodeName"):
            return False
        annotations = {**known["metadata"]["annotations"], **decision.annotations}
        self.put(
            {
                **known,
                "metadata": {**known["metadata"], "annotations": annotations},
                "spec": {**known["spec"], "nodeName": decision.node},
            }
        )
        return True


def trimmed(document: Document) -> PodRecord:
    found = record_of(document, RESOURCE)
    assert found is not None
    return found


def asked(document: Document) -> Ask:
    found = read(trimmed(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(found, Ask)
    return found


class LedgerMachine(RuleBasedStateMachine):
    """One extender after another on one API server."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.ledger = Ledger()
        self.stuck: list[Decision] = []
        self.under_way: tuple[int, list[PodRecord]] | None = None
        self.made = 0

    @initialize()
    def sees_topologies(self) -> None:
        self._list_topologies(self.ledger)

    @rule(gpus=st.integers(1, 4))
    def a_pod_is_made(self, gpus: int) -> None:
        self.made += 1
        self.server.put(pod(f"p{self.made}", gpus))

    @rule(gpus=st.integers(2, 4), node_name=st.sampled_from(NAMES))
    def a_pod_is_made_and_bound_at_once(self, gpus: int, node_name: str) -> None:
        self.a_pod_is_made(gpus)
        self._bind(f"uid-p{self.made}", node_name, "answered")

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data(), node_name=st.sampled_from(NAMES))
    def a_pod_is_bound(self, data: st.DataObject, node_name: str) -> None:
        """Decide, reserve and write, with every result the network allows."""
        uid = data.draw(st.sampled_from(sorted(self.server.pods)))
        self._bind(uid, node_name, data.draw(st.sampled_from(RESULTS)))

    @precondition(lambda self: self.stuck)
    @rule()
    def a_stuck_binding_is_carried_out(self) -> None:
        self.server.bind(self.stuck.pop(0))

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def a_pod_is_deleted(self, data: st.DataObject) -> None:
        self.server.delete(data.draw(st.sampled_from(sorted(self.server.pods))))

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def a_pod_ends(self, data: st.DataObject) -> None:
        known = self.server.pods[data.draw(st.sampled_from(sorted(self.server.pods)))]
        self.server.put(
            {**known, "status": {"phase": data.draw(st.sampled_from(["Failed", "Succeeded"]))}}
        )

    @precondition(lambda self: self.server.unseen)
    @rule(count=st.integers(1, 5))
    def the_watch_shows_changes(self, count: int) -> None:
        if self.under_way is not None:
            return
        for change, document in self.server.unseen[:count]:
            if change == "DELETED":
                self.ledger.drop_pod(document["metadata"]["uid"])
            else:
                self.ledger.put_pod(trimmed(document))
        del self.server.unseen[:count]

    @precondition(lambda self: self.under_way is None)
    @rule()
    def a_list_is_asked_for(self) -> None:
        """The server answers from now; the answer may arrive after other things happened."""
        epoch = self.ledger.begin_pod_list()
        self.under_way = (epoch, [trimmed(each) for each in self.server.pods.values()])
        self.server.unseen.clear()

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def the_list_arrives(self) -> None:
        assert self.under_way is not None
        epoch, records = self.under_way
        self.ledger.replace_pods(records, epoch=epoch)
        self.under_way = None

    @rule()
    def the_extender_restarts(self) -> None:
        """A new one knows only what it lists; requests of the old one died with it."""
        self.ledger = self._built_from_lists()
        self.server.unseen.clear()
        self.stuck.clear()
        self.under_way = None

    @invariant()
    def no_gpu_is_annotated_on_two_live_pods(self) -> None:
        live = [each for each in self.server.pods.values() if "phase" in each["status"]]
        counted = Counter(
            uuid
            for each in live
            if each["status"]["phase"] == "Pending"
            and GPUS_ANNOTATION in each["metadata"]["annotations"]
            for uuids in json.loads(each["metadata"]["annotations"][GPUS_ANNOTATION])[
                "containers"
            ].values()
            for uuid in uuids
        )
        assert [uuid for uuid, count in counted.items() if count > 1] == []

    @invariant()
    def lists_and_events_give_equal_books(self) -> None:
        if self.server.unseen or self.under_way or self.ledger.reservations():
            return
        listed = self._built_from_lists()
        assert [self.ledger.book(name) for name in NAMES] == [listed.book(name) for name in NAMES]

    @invariant()
    def free_and_held_gpus_are_apart(self) -> None:
        for name in NAMES:
            book = self.ledger.book(name)
            assert isinstance(book, Book)
            assert book.shared == 0
            for reservation in self.ledger.reservations():
                if reservation.decision.node == name:
                    assert book.free & reservation.decision.gpus == 0

    def _bind(self, uid: str, node_name: str, result: str) -> None:
        decision = self._choose(uid, node_name)
        if decision is None:
            return
        repeated = self.ledger.reservation(uid) is not None
        self.ledger.reserve(decision, now=0.0)
        if result == "refused" and not repeated:
            self.ledger.release(uid)
        elif result == "answered":
            if self.server.bind(decision):
                self.ledger.mark(uid, Progress.BOUND)
            elif uid not in self.server.pods:
                self.ledger.release(uid)
        else:
            if result == "silent after":
                self.server.bind(decision)
            if result == "stuck":
                self.stuck.append(decision)
            self.ledger.mark(uid, Progress.UNKNOWN)

    def _choose(self, uid: str, node_name: str) -> Decision | None:
        """Do what bind does between looking the pod up and writing."""
        known = self.ledger.pod(uid) or trimmed(self.server.pods[uid])
        held = self.ledger.reservation(uid)
        if known.node is not None or not known.live:
            return None
        if held is not None:
            unsettled = held.decision.node == node_name and held.progress is not Progress.BOUND
            return held.decision if unsettled else None
        ask = asked(self.server.pods[uid])
        state = self.ledger.states()[node_name]
        told = evaluation([node_name], [state], answers_of([state], ask.shape))
        book = self.ledger.book(node_name)
        assert isinstance(book, Book)
        match = match_on(book.state, ask.shape)
        if isinstance(match, Misfit):
            assert told.fits() == []
            return None
        assert told.fits() == [node_name]
        return decide(ask, match, node=node_name, generation=1, topology=book.topology)

    def _built_from_lists(self) -> Ledger:
        ledger = Ledger()
        self._list_topologies(ledger)
        records = [trimmed(each) for each in self.server.pods.values()]
        ledger.replace_pods(records, epoch=ledger.begin_pod_list())
        return ledger

    def _list_topologies(self, ledger: Ledger) -> None:
        nodes = [node_of(topology_object(name, MACHINES[name])) for name in NAMES]
        assert all(isinstance(each, NodeRecord) for each in nodes)
        ledger.replace_topologies(nodes)


LedgerMachine.TestCase.settings = settings(deadline=None, max_examples=300, stateful_step_count=50)
TestLedger = LedgerMachine.TestCase
