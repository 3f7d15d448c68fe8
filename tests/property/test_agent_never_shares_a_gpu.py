"""Random sequences of pods on one node, with the real agent, a fake kubelet and API server.

The fake kubelet chooses at random and loses records as the real one does. Kubelet and agent
restart at any time.
"""

import asyncio
from collections.abc import Iterable

from hypothesis import settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from gputopo.catalogue import named
from gputopo_deviceplugin.report.status import observed_gpus
from support.agent.in_process import AgentInProcess, PluginInProcess, PodsOfApiServer, Processes
from support.agent.pods import Pod, Shape, shapes
from support.agent.world import annotation_of, pod_document
from support.kubelet.device_manager import AdmissionRejectedError, DeviceManager
from support.property_settings import LONG
from support.virtual_time import runner

TOPOLOGY = named("dgx1-v100", node="n1")
UUIDS: list[str] = [gpu.uuid for gpu in TOPOLOGY.gpus]
HEALTHY = {gpu.uuid: None for gpu in TOPOLOGY.gpus}
WATCH_SECONDS = 20.0
"""Longest time until a broken watch is replaced."""

ENDED = {"Failed", "Succeeded"}
Whim = tuple[tuple[str, ...], str | None]
Whims = strategies.sampled_from(
    [*[((), None)] * 50, *[((uuid,), None) for uuid in UUIDS], *[((), uuid) for uuid in UUIDS]]
)
"""GPUs that kubelet requires, and one that it takes instead of the preferred ones."""

Meanwhile = strategies.sampled_from(
    [*["nothing"] * 3, "end", "list", "end and list", "observe", "end and observe", "outage"]
)
"""Another pod ends, other clients list pod-resources, the API server is unavailable."""

Names = strategies.sampled_from("abcdef")


class LivesOfPods(RuleBasedStateMachine):
    """Everything that happens to the pods of a node, in any order."""

    bound = Bundle("bound")
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.loop = runner()
        self.server = PodsOfApiServer()
        self.live: dict[str, Pod] = {}
        self.lingering: dict[str, Pod] = {}
        self.processes = Processes()
        self.count = 0
        self.other_pod_ends: Pod | None = None
        self.meddling = False
        self.given_twice: set[str] = set()
        self.rejected_names: set[str] = set()

    @initialize(seed=strategies.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.manager = DeviceManager(seed)
        self.manager.devices = dict.fromkeys(UUIDS, "Healthy")
        self._start_agent()

    def _start_agent(self) -> None:
        self.agent = AgentInProcess(TOPOLOGY, self.server, self.manager, processes=self.processes)
        self.manager.plugin = PluginInProcess(self.agent.plugin, self._during_allocate)
        self.loop.run(self.agent.start())

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self.loop.run(self.agent.stop())
        self.loop.close()

    @rule(target=bound, shape=shapes(), name=Names, data=strategies.data())
    def bind(self, shape: Shape, name: str, data: strategies.DataObject) -> object:
        """The extender places a pod with an unused name on free GPUs."""
        free = sorted(set(UUIDS) - self._taken())
        if self._is_taken(name) or sum(shape.keepers.values()) > len(free):
            return multiple()
        order = data.draw(strategies.permutations(free))
        given = {}
        for container, gpus in shape.keepers.items():
            given[container], order = order[:gpus], order[gpus:]
        pod = self._new_pod(name, shape, given)
        placed = {container: gpus for container, gpus in given.items() if gpus}
        self._create(pod, annotation_of(name, placed, uid=pod.uid))
        return pod

    @rule(
        target=bound,
        name=Names,
        kind=strategies.sampled_from(["none", "unreadable", "of another", "too few"]),
    )
    def bind_wrongly(self, name: str, kind: str) -> object:
        """Another client binds a pod, with an annotation of its own."""
        if self._is_taken(name):
            return multiple()
        given, taken = {"c0": UUIDS[:1]}, self._taken()
        pod = self._new_pod(name, Shape({}, (), {"c0": 2 if kind == "too few" else 1}), given)
        own = annotation_of(name, given, uid=pod.uid)
        copied = annotation_of(name, given, uid="uid-of-another")
        self._create(pod, {"none": None, "unreadable": "{", "of another": copied}.get(kind, own))
        pod.wrong = True
        self.given_twice |= {*given["c0"]} & taken
        return pod

    @rule(target=bound, name=Names, other=running | bound)
    def bind_to_what_is_taken(self, name: str, other: Pod) -> object:
        """Another client binds a pod to a used GPU: the first pod in admission may have it."""
        # The worst case is a kubelet that no longer knows that the GPU is used.
        # Another is a deleted pod with processes: kubelet offers its GPUs.
        lost = [pod for pod in self.live.values() if pod.lost]
        other = next(iter([*self.lingering.values(), *lost]), other)
        return self._bind_to_gpu_of(other, name)

    def _bind_to_gpu_of(self, other: Pod, name: str) -> object:
        gpus = next((gpus for gpus in other.given.values() if gpus), [])
        if self._is_taken(name) or not gpus:
            return multiple()
        pod = self._new_pod(name, Shape({}, (), {"c0": 1}), {"c0": gpus[:1]})
        self.given_twice |= {*gpus[:1]} & self._taken()
        self._create(pod, annotation_of(name, pod.given, uid=pod.uid))
        return pod

    def _new_pod(self, name: str, shape: Shape, given: dict[str, list[str]]) -> Pod:
        self.count += 1
        return Pod(name, f"uid-{self.count}", shape, given)

    def _create(self, pod: Pod, annotation: str | None) -> None:
        self.server.down = False  # no pod is bound while it is unavailable
        init, sidecars, requests = pod.shape
        self.server.put(
            pod_document(
                pod.name, requests, uid=pod.uid, annotation=annotation, init=init, sidecars=sidecars
            )
        )

    def _is_taken(self, name: str) -> bool:
        return any(key.name == name for key in self.server.pods)

    def _taken(self) -> set[str]:
        """Return the GPUs that the extender counts as used, by the API server and kubelet."""
        named_gpus = {
            gpu
            for document in self.server.pods.values()
            if document["status"]["phase"] not in ENDED
            for gpu in UUIDS
            if gpu in str(document["metadata"]["annotations"])
        }
        return named_gpus | set(self._held())

    @rule(
        target=running,
        pod=consumes(bound),
        whim=Whims,
        meanwhile=Meanwhile,
    )
    def admit(self, pod: Pod, whim: Whim, meanwhile: str) -> object:
        """Kubelet admits a pod while other clients list its pods, and another pod may end."""
        if pod.key in self.manager.checkpoint.pods:
            return multiple()  # its predecessor still exists
        aligned, taken_anyway = whim
        self.manager.aligned = set(aligned)
        self.manager.ignore_preference = {taken_anyway} if taken_anyway else None
        self.other_pod_ends = next(iter(self.live.values()), None) if "end" in meanwhile else None
        self.meddling = "list" in meanwhile
        gone, outage = not self._is_current(pod), "outage" in meanwhile
        self.server.down ^= outage
        try:
            self.loop.run(self._admit(pod, observed="observe" in meanwhile))
        except AdmissionRejectedError as error:
            self._rejected(pod, str(error), excused=any(whim) or gone)
            if gone:  # the agent mistook it for its successor of the same name, and rejected that
                self.rejected_names.add(pod.name)
            return multiple()
        finally:
            self.server.down ^= outage
        if gone:
            # Kubelet's list has no UID: it may have got the GPUs of a successor of its name.
            # Kubelet ends it before it admits the successor.
            assert not set(pod.gpus) & set(self._held())
            self.manager.end(pod.key)
            return multiple()
        assert pod.as_placed()
        self.live[pod.uid] = pod
        self.processes.pods.add(pod.uid)
        self._set_phase(pod, "Running")
        return pod

    async def _admit(self, pod: Pod, *, observed: bool) -> None:
        observing = asyncio.create_task(self.agent.observer.observe()) if observed else None
        init, sidecars, requests = pod.shape
        try:
            pod.start(await self.manager.admit(pod.key, requests, init=init, sidecars=sidecars))
        finally:
            if observing is not None:
                await observing

    def _during_allocate(self) -> None:
        if self.other_pod_ends is not None:
            self._end(self.other_pod_ends, "Succeeded")
            self.other_pod_ends = None
        if self.meddling:
            self.manager.listed()

    def _rejected(self, pod: Pod, reason: str, *, excused: bool) -> None:
        excused = (
            excused
            or pod.wrong
            or pod.name in self.rejected_names
            or any(gpu in self.given_twice for gpus in pod.given.values() for gpu in gpus)
            or self.server.down
            or any(other.lost for other in self.live.values())
        )
        assert excused, reason
        reasons = self.agent.recorder.rejections
        assert reason in reasons or reason.startswith("needed"), reason
        self._set_phase(pod, "Failed")

    @rule(pod=consumes(running))
    def finish(self, pod: Pod) -> None:
        """All containers end without a deletion."""
        if pod.uid in self.live:
            self._end(pod, "Succeeded")

    @rule(pod=consumes(running))
    def delete(self, pod: Pod) -> None:
        """A client deletes a running pod by force: kubelet frees its GPUs at once."""
        if pod.uid in self.live:
            self._end(pod, None)
        elif self._is_current(pod):
            self.server.delete(pod.key)

    @rule(
        target=bound,
        pod=consumes(running),
        phase=strategies.sampled_from([None, "Failed"]),
        name=Names,
    )
    def delete_while_processes_ignore_it(self, pod: Pod, phase: str | None, name: str) -> object:
        """A pod is deleted by force, or failed by PodGC; kubelet frees its GPUs, and it runs on.

        Another pod is bound to one of them.
        """
        if pod.uid not in self.live:
            return multiple()
        self.lingering[pod.uid] = pod
        self._end(pod, phase)
        return self._bind_to_gpu_of(pod, name)

    @rule(data=strategies.data())
    def last_process_ends(self, data: strategies.DataObject) -> None:
        """The last process of a deleted pod ends."""
        if self.lingering:
            uid = data.draw(strategies.sampled_from(sorted(self.lingering)))
            del self.lingering[uid]
            self.processes.pods.discard(uid)

    @rule(pod=bound)
    def delete_before_admission(self, pod: Pod) -> None:
        """A client deletes a pod by force before kubelet sees it."""
        if self._is_current(pod):
            self.server.delete(pod.key)

    @rule(pod=consumes(bound))
    def delete_gracefully_before_admission(self, pod: Pod) -> None:
        """Kubelet sees a pod only when it is being deleted: it lists it and never admits it."""
        if self._is_current(pod) and pod.key not in self.manager.checkpoint.pods:
            self.server.delete_gracefully(pod.key)
            self.manager.checkpoint.pods[pod.key] = {name: set() for name in pod.shape.keepers}

    @rule()
    def collect(self) -> None:
        """Pods that ended or are being deleted are removed, so that their names are unused."""
        for key, document in list(self.server.pods.items()):
            if "deletionTimestamp" in document["metadata"]:
                self.manager.end(key)
            if "deletionTimestamp" in document["metadata"] or document["status"]["phase"] in ENDED:
                self.server.delete(key)

    def _end(self, pod: Pod, phase: str | None) -> None:
        del self.live[pod.uid]
        if pod.uid not in self.lingering:
            self.processes.pods.discard(pod.uid)
        self.manager.end(pod.key)
        if phase is not None:
            self._set_phase(pod, phase)
        elif self._is_current(pod):
            self.server.delete(pod.key)

    def _is_current(self, pod: Pod) -> bool:
        document = self.server.pods.get(pod.key)
        return document is not None and document["metadata"]["uid"] == pod.uid

    def _set_phase(self, pod: Pod, phase: str) -> None:
        if self._is_current(pod):
            self.server.put({**self.server.pods[pod.key], "status": {"phase": phase}})

    @rule(
        kind=strategies.sampled_from(
            ["new agent", "new kubelet", "forgetful kubelet", "watch", "API server"]
        )
    )
    def disturb(self, kind: str) -> None:
        """A part restarts, falls behind, becomes unavailable or recovers."""
        if kind == "new agent":
            self.loop.run(self.agent.stop())
            self._start_agent()
        elif kind == "new kubelet":
            self._restart_kubelet()
        elif kind == "forgetful kubelet":  # the open fault: IDs that containers hold are offered
            self.manager.checkpoint.allocated = set()
        elif kind == "watch":
            self.server.mute = not self.server.mute
        else:
            self.server.down = not self.server.down

    def _restart_kubelet(self) -> None:
        """It keeps its records, and registers the agent again."""
        self.manager.restart()
        self.agent.kubelet.add_registration()

    @rule()
    def kubelet_loses_a_record(self) -> None:
        """A checkpoint is lost under a running pod, and kubelet starts without it."""
        for pod in [pod for pod in self.live.values() if pod.held and not pod.lost][:1]:
            for records in (
                self.manager.checkpoint.pods[pod.key],
                self.manager.checkpoint.init[pod.key],
            ):
                for ids in records.values():
                    ids.clear()
            pod.lost = True
            self._restart_kubelet()

    @rule()
    def observe(self) -> None:
        """The status shows what containers see; differences are recorded, and only these."""
        self.loop.run(asyncio.sleep(WATCH_SECONDS))
        self.loop.run(self.agent.observer.observe())
        lost = {pod.uid for pod in self.live.values() if pod.lost}
        found = {one.uid for one in self.agent.observer.differing}
        assert found <= lost & self.agent.recorder.differing
        assert found == lost or self.server.mute or self.server.down
        published = observed_gpus(HEALTHY, self.agent.tracker.all_users())
        users = {gpu.uuid: (gpu.pod, gpu.container) for gpu in published if gpu.pod}
        gone = {gpu.uuid: users.pop(gpu.uuid) for gpu in published if gpu.pod_deleted}
        recorded = self._seen_by(pod for pod in self.live.values() if not pod.lost)
        # Where kubelet lost a record, the GPUs are published by the annotation.
        assert recorded.items() <= users.items() <= self._seen_by(self.live.values()).items()
        lingering = self._seen_by(self.lingering.values())
        assert gone.items() <= lingering.items()
        assert gone == lingering or self.server.mute or self.server.down

    def _seen_by(self, pods: Iterable[Pod]) -> dict[str, tuple[str | None, str | None]]:
        """Return the pod and container that see each GPU."""
        return {
            gpu: (pod.name, container)
            for pod in pods
            for container, gpus in pod.held.items()
            for gpu in gpus
        }

    @invariant()
    def no_gpu_is_in_two_live_containers(self) -> None:
        held = self._held()
        assert len(held) == len(set(held))

    @invariant()
    def kubelets_list_equals_what_containers_see(self) -> None:
        for pod in self.live.values():
            checkpoint = self.manager.checkpoint.pods[pod.key]
            assert pod.lost or {name: ids for name, ids in checkpoint.items() if ids} == {
                name: set(gpus) for name, gpus in pod.held.items()
            }

    @invariant()
    def kubelet_marks_no_unused_gpu_as_used(self) -> None:
        checkpoint = self.manager.checkpoint
        records = [*checkpoint.pods.values(), *checkpoint.init.values()]
        recorded = set().union(*(ids for record in records for ids in record.values()))
        assert checkpoint.stale or checkpoint.allocated <= recorded

    def _held(self) -> list[str]:
        pods = [*self.live.values(), *self.lingering.values()]
        return [gpu for pod in pods for gpu in pod.gpus]


TestLivesOfPods = LivesOfPods.TestCase
TestLivesOfPods.settings = settings(
    max_examples=3000 if LONG else 100, stateful_step_count=60 if LONG else 30
)
