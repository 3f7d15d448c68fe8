"""Two extenders and one API server, with any order of binds, faults, crashes and late requests.

Every request to the API server waits until the machine carries it out, responds, loses it, or
delays it, also after its sender has crashed. So an extender can be frozen at any step, and its
watch can be late by any time. One GPU must never be annotated on two live pods, and a ledger filled
from lists must have the same usage as one filled from events.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import Histogram

from gputopo.api.names import GPUS_ANNOTATION, INVALIDATED_ANNOTATION, RESOURCE
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS
from gputopo_cluster.claims import Claim
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.fencing.claim_lease import ClaimLease, StoredClaims
from gputopo_extender.fencing.fence import ClaimFence
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.protocol import ExtenderBindingArgs
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.comparisons import NodeComparisons
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.postponement.pods import PostponedPods
from gputopo_kube.errors import ConflictError, NotFoundError, RejectedError, UnavailableError
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.evaluation import AnyNodeState, NodeFit
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.objects import Document, at_version, pod, topology_object
from support.builders.topologies import DOUBLE, node
from support.virtual_time import VirtualTimeLoop

NODES = ("n1", "n2")
MACHINES = {name: node(0, 1, 2, 4, links={(0, 1): DOUBLE}, name=name) for name in NODES}
ENDS = ["Failed", "Succeeded"]
PATIENCE_SECONDS = 3600
TURNS = ["bind", "show", "carry out", "respond", "respond", "respond often", "patch"]
POLL_SECONDS = 0.005
"""Virtual time after which an extender looks again whether its watch has shown a change."""

Found = TypeVar("Found")


class DirectEvaluation(EvaluationCache):
    """Evaluates without a thread and without a timeout."""

    async def evaluate(
        self, states: AbstractSet[AnyNodeState], request: PlacementRequest
    ) -> Mapping[Hashable, NodeFit]:
        return evaluate_states(states, request)


@dataclass(slots=True)
class Server:
    """The API server's storage: pods by UID, the claims, and the changes of pods."""

    pods: dict[str, Document] = field(default_factory=dict)
    claims: StoredClaims = field(default_factory=lambda: StoredClaims((), None))
    changes: list[tuple[bool, Document]] = field(default_factory=list)
    version: int = 1
    _views: dict[tuple[str, str], PodView] = field(default_factory=dict)

    def view(self, document: Document) -> PodView:
        """Return a parsed version of a pod; each version is parsed once."""
        metadata = document["metadata"]
        key = metadata["uid"], metadata["resourceVersion"]
        if key not in self._views:
            self._views[key] = parsed(document)
        return self._views[key]

    def put(self, document: Document) -> None:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        document = {**document, "metadata": metadata}
        self.pods[metadata["uid"]] = document
        self.changes.append((False, document))

    def delete(self, uid: str) -> None:
        self.version += 1
        self.changes.append((True, at_version(self.pods.pop(uid), self.version)))

    def named(self, namespace: str, name: str) -> PodView | None:
        found = (
            each
            for each in map(self.view, self.pods.values())
            if (each.namespace, each.name) == (namespace, name)
        )
        return next(found, None)

    def invalidate(self, namespace: str, name: str) -> PodView | None:
        if found := self.named(namespace, name):
            known = self.pods[found.uid]
            mark = {INVALIDATED_ANNOTATION: str(self.version)}
            annotations = {**known["metadata"]["annotations"], **mark}
            self.put({**known, "metadata": {**known["metadata"], "annotations": annotations}})
        return self.named(namespace, name)

    def bind(self, decision: Decision) -> None:
        known = self.pods.get(decision.claim.uid)
        if known is None:
            raise NotFoundError("no such pod", 404)
        if known["spec"].get("nodeName"):
            raise ConflictError("already assigned", 409)
        if known["metadata"]["resourceVersion"] != decision.claim.version:
            raise ConflictError("the pod has another version", 409)
        annotations = {**known["metadata"]["annotations"], **decision.annotations}
        self.put(
            {
                **known,
                "metadata": {**known["metadata"], "annotations": annotations},
                "spec": {**known["spec"], "nodeName": decision.claim.node},
            }
        )

    def write_claims(self, claims: tuple[Claim, ...], version: str | None) -> str:
        if self.claims.version != version:
            raise ConflictError("the Lease has another version", 409)
        # A write that changes nothing keeps the version.
        if version is None or claims != self.claims.claims:
            self.version += 1
            self.claims = StoredClaims(claims, str(self.version))
        return str(self.claims.version)


@dataclass(slots=True, eq=False)
class Request:
    """A request that the server has not carried out yet."""

    sender: "Client"
    work: Callable[[], Any]
    response: "asyncio.Future[Any]"


class Client(PodApi, ClaimLease):
    """Sends requests that wait for the machine."""

    def __init__(self, server: Server, requests: list[Request]) -> None:
        self._server = server
        self._requests = requests

    async def get_pod(self, namespace: str, name: str) -> PodView | None:
        return await self._send(lambda: self._server.named(namespace, name))

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        return await self._send(lambda: self._server.invalidate(namespace, name))

    async def bind(self, decision: Decision) -> None:
        await self._send(lambda: self._server.bind(decision))

    async def read_claims(self) -> StoredClaims:
        return await self._send(lambda: self._server.claims)

    async def write_claims(self, claims: Iterable[Claim], *, version: str | None) -> str:
        written = tuple(claims)
        return await self._send(lambda: self._server.write_claims(written, version))

    async def _send(self, work: Callable[[], Found]) -> Found:
        response: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._requests.append(Request(self, work, response))
        return await response


def parsed(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


class Extender:
    """One process: its ledger, the changes that it has seen, and its binds in progress."""

    def __init__(self, server: Server, requests: list[Request]) -> None:
        self.ledger = Ledger()
        self.seen = 0
        self.listing: tuple[int, list[PodView], int] | None = None
        self.client = client = Client(server, requests)
        self.binder = Binder(
            self.ledger,
            DirectEvaluation(
                evaluate_states,
                Histogram("build_seconds", "Build time.", registry=None),
                timeout_seconds=1,
            ),
            client,
            ClaimFence(
                self.ledger,
                client,
                client,
                timeout_seconds=PATIENCE_SECONDS,
                spacing_seconds=0,
                poll_seconds=POLL_SECONDS,
            ),
            NodeComparisons(),
            PostponedPods(self.ledger, lambda: 0.0),
            PodRequests(
                self.ledger,
                resource=RESOURCE,
                default_policy=PolicyName.PRESERVE,
                weights=INSTALLATION_WEIGHTS,
            ),
        )
        self.tasks: list[asyncio.Task[Any]] = []
        self.ledger.replace_topologies(GPU_NODES)


def parsed_node(name: str) -> GpuNode:
    found = parse_gpu_node(topology_object(name, MACHINES[name]))
    assert isinstance(found, GpuNode)
    return found


GPU_NODES = [parsed_node(name) for name in NODES]


class Machine(RuleBasedStateMachine):
    """Two extenders, each of which may crash and be replaced by a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.requests: list[Request] = []
        self.created = 0
        self.extenders: list[Extender] = []

    @initialize()
    def begins(self) -> None:
        self.loop = VirtualTimeLoop()
        self.extenders = [self._start(), self._start()]

    def teardown(self) -> None:
        """Finish everything; no reservation or claim may remain."""
        if not self.extenders:
            return
        try:
            self._finish_everything()
        finally:
            for each in self.extenders:
                self._cancel(each)
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self._run_tasks()
            self.loop.close()

    @rule(gpus=st.integers(1, 4))
    def pod_is_created(self, gpus: int) -> None:
        self.created += 1
        self.server.put(pod(f"p{self.created}", gpus))

    @rule(
        gpus=st.integers(2, 4),
        which=st.integers(0, 1),
        name=st.sampled_from(NODES),
        responses=st.integers(0, 4),
    )
    def pod_is_created_and_its_bind_makes_progress(
        self, gpus: int, which: int, name: str, responses: int
    ) -> None:
        """Four responses finish a bind without other extenders: claims read, pod changed (which the
        watch must show), claims written, Binding."""
        self.pod_is_created(gpus)
        self._show(self.extenders[which], len(self.server.changes))
        self._begin(which, self.server.pods[f"uid-p{self.created}"], name)
        for _ in range(responses):
            self._respond_to(which, 1)
            self._show(self.extenders[which], len(self.server.changes))
            self._run_tasks()

    @rule(
        gpus=st.integers(2, 4),
        turns=st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(TURNS)), min_size=6, max_size=40
        ),
    )
    def both_extenders_bind_to_one_empty_node(
        self, gpus: int, turns: list[tuple[int, str]]
    ) -> None:
        for uid in list(self.server.pods):
            self.server.delete(uid)
        for each in self.extenders:
            self._show(each, len(self.server.changes))
        for which, turn in turns:
            if turn == "bind":
                self.pod_is_created(gpus)
                self._begin(which, self.server.pods[f"uid-p{self.created}"], NODES[0])
            elif turn == "show":
                self._show(self.extenders[which], len(self.server.changes))
                self._run_tasks()
            elif turn == "patch":
                for document in list(self.server.pods.values()):
                    self.server.put(document)
            elif turn == "carry out":
                for request in self._waiting(which)[:1]:
                    self._carry_out_silently(request)
            else:
                self._respond_to(which, 1 if turn == "respond" else 6)

    @rule(which=st.integers(0, 1), responses=st.integers(1, 6))
    def extender_gets_responses(self, which: int, responses: int) -> None:
        self._respond_to(which, responses)

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data(), which=st.integers(0, 1), name=st.sampled_from(NODES))
    def bind_begins(self, data: st.DataObject, which: int, name: str) -> None:
        self._begin(which, self._any_pod(data), name)

    def _begin(self, which: int, document: Document, name: str) -> None:
        metadata = document["metadata"]
        wanted = ExtenderBindingArgs.model_validate(
            {
                "PodName": metadata["name"],
                "PodNamespace": metadata["namespace"],
                "PodUID": metadata["uid"],
                "Node": name,
            }
        )
        self._run(which, self.extenders[which].binder.bind(wanted))

    @rule(which=st.integers(0, 1))
    def open_bindings_are_resolved(self, which: int) -> None:
        self._run(which, self.extenders[which].binder.resolve_open())

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def request_gets_a_response(self, data: st.DataObject) -> None:
        self._respond(self._any_request(data))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def request_is_carried_out_and_gets_a_late_response(self, data: st.DataObject) -> None:
        self._carry_out_silently(self._any_request(data))

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), fate=st.sampled_from(["carried out", "late", "never arrives"]))
    def response_is_lost(self, data: st.DataObject, fate: str) -> None:
        """A late request is carried out at any later time."""
        request = self._any_request(data)
        if not request.response.done():
            request.response.set_exception(UnavailableError("no response"))
        if fate == "carried out":
            self._carry_out(request)
        if fate != "late":
            self.requests.remove(request)
        self._run_tasks()

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def pod_is_deleted(self, data: st.DataObject) -> None:
        self.server.delete(self._any_pod(data)["metadata"]["uid"])

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data(), phase=st.sampled_from(ENDS))
    def pod_ends(self, data: st.DataObject, phase: str) -> None:
        self.server.put({**self._any_pod(data), "status": {"phase": phase}})

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def client_labels_a_pod(self, data: st.DataObject) -> None:
        self.server.put(self._any_pod(data))

    @rule(which=st.integers(0, 1), count=st.integers(1, 5))
    def watch_shows_changes(self, which: int, count: int) -> None:
        self._show(self.extenders[which], count)

    @rule(which=st.integers(0, 1))
    def list_is_requested(self, which: int) -> None:
        """The list has the current pods; it may arrive after later changes."""
        extender = self.extenders[which]
        if extender.listing is None:
            epoch = extender.ledger.begin_pod_list()
            extender.listing = (epoch, self._records(), self.server.version)
            extender.seen = len(self.server.changes)

    @rule(which=st.integers(0, 1))
    def list_arrives(self, which: int) -> None:
        self._take_list(self.extenders[which])

    @rule(which=st.integers(0, 1))
    def extender_crashes_and_another_starts(self, which: int) -> None:
        """Its requests stay in flight."""
        self._cancel(self.extenders[which])
        self.extenders[which] = self._start()

    @invariant()
    def no_gpu_is_annotated_on_two_live_pods(self) -> None:
        counted = Counter(
            uuid
            for each in self.server.pods.values()
            if each["status"]["phase"] not in ENDS
            and GPUS_ANNOTATION in each["metadata"]["annotations"]
            for uuids in json.loads(each["metadata"]["annotations"][GPUS_ANNOTATION])[
                "containers"
            ].values()
            for uuid in uuids
        )
        assert [uuid for uuid, count in counted.items() if count > 1] == []

    def _start(self) -> Extender:
        extender = Extender(self.server, self.requests)
        epoch = extender.ledger.begin_pod_list()
        extender.ledger.replace_pods(self._records(), epoch=epoch, version=self.server.version)
        extender.seen = len(self.server.changes)
        return extender

    def _records(self) -> list[PodView]:
        return [self.server.view(each) for each in self.server.pods.values()]

    def _any_pod(self, data: st.DataObject) -> Document:
        # Hypothesis draws the newest first when it shrinks an example.
        return self.server.pods[data.draw(st.sampled_from(list(reversed(self.server.pods))))]

    def _any_request(self, data: st.DataObject) -> Request:
        return self.requests[data.draw(st.integers(0, len(self.requests) - 1))]

    def _run(self, which: int, work: Any) -> None:
        self.extenders[which].tasks.append(self.loop.create_task(work))
        self._run_tasks()

    def _run_tasks(self) -> None:
        """Let every task continue until it waits for a response, or for its watch.

        The clock passes a time only when no task can continue before, so each task that waits for
        its watch looks at it and continues as far as it can.
        """
        self.loop.run_until_complete(asyncio.sleep(1.5 * POLL_SECONDS))
        for extender in self.extenders:
            for task in [each for each in extender.tasks if each.done()]:
                extender.tasks.remove(task)
                task.result()

    def _respond_to(self, which: int, responses: int) -> None:
        for _ in range(responses):
            for request in self._waiting(which)[:1]:
                self._respond(request)

    def _waiting(self, which: int) -> list[Request]:
        client = self.extenders[which].client
        return [each for each in self.requests if each.sender is client]

    def _respond(self, request: Request) -> None:
        self.requests.remove(request)
        self._carry_out(request)
        self._run_tasks()

    def _carry_out_silently(self, request: Request) -> None:
        result: asyncio.Future[Any] = self.loop.create_future()
        try:
            result.set_result(request.work())
        except RejectedError as error:
            result.set_exception(error)
        request.work = result.result

    def _carry_out(self, request: Request) -> None:
        try:
            result = request.work()
        except RejectedError as error:
            if not request.response.done():
                request.response.set_exception(error)
        else:
            if not request.response.done():
                request.response.set_result(result)

    def _cancel(self, extender: Extender) -> None:
        for task in extender.tasks:
            task.cancel()
        if extender.tasks:
            self.loop.run_until_complete(asyncio.wait(extender.tasks))
        extender.tasks.clear()

    def _show(self, extender: Extender, count: int) -> None:
        if extender.listing is not None:
            return
        for deleted, document in self.server.changes[extender.seen : extender.seen + count]:
            if deleted:
                extender.ledger.drop_pod(document["metadata"]["uid"], self.server.view(document))
            else:
                extender.ledger.put_pod(self.server.view(document))
        extender.seen = min(len(self.server.changes), extender.seen + count)

    def _take_list(self, extender: Extender) -> None:
        if extender.listing is not None:
            epoch, records, version = extender.listing
            extender.ledger.replace_pods(records, epoch=epoch, version=version)
            extender.listing = None

    def _finish_everything(self) -> None:
        for which, extender in enumerate(self.extenders):
            self._respond_to_all()
            self._take_list(extender)
            for _ in range(2):
                self._show(extender, len(self.server.changes))
                self._run(which, extender.binder.resolve_open())
                self._respond_to_all()
        for extender in self.extenders:
            self._show(extender, len(self.server.changes))
            assert extender.tasks == []
            assert extender.ledger.reservations.unbound() == ()
            assert extender.ledger.reservations.own() == ()
            self._compare_with_a_new_one(extender.ledger)
        self.no_gpu_is_annotated_on_two_live_pods()

    def _respond_to_all(self) -> None:
        while self.requests:
            self._respond(self.requests[0])

    def _compare_with_a_new_one(self, ledger: Ledger) -> None:
        listed = Ledger()
        listed.replace_topologies(GPU_NODES)
        listed.replace_pods(self._records(), epoch=listed.begin_pod_list())
        for name in NODES:
            usage = ledger.usage(name)
            assert isinstance(usage, NodeUsage)
            assert usage.shared == 0
            assert usage == listed.usage(name)


Machine.TestCase.settings = settings(deadline=None, max_examples=800, stateful_step_count=50)
TestExtenders = Machine.TestCase
