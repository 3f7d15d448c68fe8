"""Sizes the running pods of one node: reads their state, calls the decision, resizes the pods."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from gputopo.runtime.log import fields
from gputopo.runtime.times import timestamp, utc
from gputopo.tuning.decide import next_steps
from gputopo.tuning.gain import gain_percent
from gputopo.tuning.model import (
    NodePlan,
    PendingPod,
    PodResize,
    RecordUpdate,
    TunedNode,
    TunedPod,
)
from gputopo.tuning.sized import sized_node, total
from gputopo.tuning.targets import MECHANISMS, targets
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ConflictError, DeniedError, RejectedError
from gputopo_kube.tuned_node import (
    NodePod,
    SizingFacts,
    allocatable,
    has_unknown_gpus,
    parse_node_pods,
    parse_sizing_facts,
    parse_tuned_node,
    to_amounts,
)
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.tuning_api import TuningApi
from gputopo_operator.controller.waiting_pods import WAIT_SECONDS, WaitingPods
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.tuning_events import obstacle_event, profile_event, tuning_event
from gputopo_operator.model.jobs import ObjectEvent
from gputopo_operator.parse.pending import parse_offer
from gputopo_operator.settings import OperatorSettings
from gputopo_operator.sizing_metrics import PodFigures, SizingMetrics

NO_GPUS_SECONDS: Final = 10.0
"""When to decide again about a node that offers no GPUs, although pods use them."""

_MOST_DECISIONS: Final = 3
"""Decisions in one call: each rejected resize needs one more, and the queue repeats the rest."""

_log = logging.getLogger(__name__)


class Tuner:
    """Sizes the running pods of nodes. Its methods block; any thread may call them."""

    def __init__(
        self,
        api: TuningApi,
        objects: JobApi,
        nodes: NodeStore,
        waiting: WaitingPods,
        metrics: SizingMetrics,
        settings: OperatorSettings,
        clock: Callable[[], datetime] = utc,
    ) -> None:
        self._api = api
        self._objects = objects
        self._nodes = nodes
        self._waiting = waiting
        self._metrics = metrics
        self._settings = settings
        self._mechanism = MECHANISMS[settings.sizing_mechanism]
        self._clock = clock
        self._obstacles: dict[str, set[tuple[str, str]]] = {}

    def advance(self, node: str) -> float | None:
        """Resize the pods of a node where needed; return the seconds until the next call, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        try:
            return self._advance(node)
        except ConflictError as error:
            _log.debug("changed since it was read %s", fields(node=node, reason=error))
            return CONFLICT_DELAY_SECONDS

    def _advance(self, name: str) -> float | None:
        rejections: dict[str, str] = {}
        for _ in range(_MOST_DECISIONS):
            node = self._api.node(name)
            now = self._clock()
            pods = [] if node is None else self._read_pods(name, now)
            if node is None or not any(each.tuned or each.labelled for each in pods):
                self._forget(name)
                return None
            if has_unknown_gpus(node, pods, self._settings.resource):
                _log.debug("pods not sized %s", fields(node=name, reason="no GPUs are offered"))
                return NO_GPUS_SECONDS
            tuned = self._read(node, pods, rejections, now)
            plan = next_steps(tuned, targets(tuned, self._mechanism))
            self._report_state(tuned, pods, now)
            rejected = self._carry_out(plan, pods, now)
            if not rejected:
                return self._delay(plan, tuned)
            rejections |= rejected
        return CONFLICT_DELAY_SECONDS

    def _read_pods(self, node: str, now: datetime) -> list[NodePod]:
        settings = self._settings
        pods = self._api.pods_on(node)
        return parse_node_pods(pods, settings.resource, settings.namespace_names, now)

    def _read(
        self, node: Document, pods: Sequence[NodePod], rejections: Mapping[str, str], now: datetime
    ) -> TunedNode:
        """Return the input of the decision, with the pods for which this node frees CPUs."""
        name, resource = node["metadata"]["name"], self._settings.resource
        profiles = {each.profile for each in pods if each.tuned and each.profile}
        facts = {key: self._read_facts(key) for key in sorted(profiles)}
        measured = self._nodes.report(name).measured
        found = parse_tuned_node(node, pods, resource, facts, measured, now)
        pending = self._pending(node, pods, found)
        tuned = (replace(each, rejection=rejections.get(each.uid, "")) for each in found.pods)
        return replace(found, pods=tuple(tuned), pending=pending)

    def _read_facts(self, profile: ObjectKey) -> SizingFacts:
        try:
            return parse_sizing_facts(self._objects.profile(profile))
        except DeniedError as error:
            _log.warning("GPUProfile not read %s", fields(profile=profile, reason=error))
            return SizingFacts()

    def _pending(
        self, node: Document, pods: Sequence[NodePod], tuned: TunedNode
    ) -> tuple[PendingPod, ...]:
        counted = (each.counted for each in pods)
        offer = parse_offer(node, allocatable(node), counted, sized_node(tuned).spare)
        return tuple(
            PendingPod(each.uid, to_amounts(each.requests), each.gpus)
            for each in self._waiting.of_node(tuned.name, offer)
        )

    def _carry_out(self, plan: NodePlan, pods: Sequence[NodePod], now: datetime) -> dict[str, str]:
        """Carry out all steps in their order; return the rejection messages by UID of the pod.

        If a step fails, the steps of the other pods are still carried out. So a client that changes
        its pod all the time delays no other pod. If a cut fails, kubelet defers the raise that
        needs it, and the next decision repeats the cut.

        Raises:
            RejectedError: a write failed, and no resize was rejected.
        """
        by_uid = {each.view.uid: each for each in pods}
        rejections: dict[str, str] = {}
        failed: list[RejectedError] = []
        for step in plan.steps:
            try:
                rejection = self._carry_out_step(by_uid[step.uid], step, now)
            except RejectedError as error:
                failed.append(error)
            else:
                rejections |= {step.uid: rejection} if rejection else {}
        if failed and not rejections:
            raise next((it for it in failed if not isinstance(it, ConflictError)), failed[0])
        return rejections

    def _carry_out_step(self, pod: NodePod, step: PodResize | RecordUpdate, now: datetime) -> str:
        """Carry out one step; return why the API server rejected its resize, or ""."""
        written = self._api.write_record(pod.raw, step.record)
        # Before the resize: with the record, a repeated decision does not report it again.
        self._report(pod, step, now)
        return self._resize(pod, written, step) if isinstance(step, PodResize) else ""

    def _resize(self, pod: NodePod, written: Document, step: PodResize) -> str:
        """Resize a pod; return why the API server rejected the resize, or ""."""
        last, target = step.record.last, step.record.target
        logged = fields(pod=pod.view.key, before=tuple(last), after=tuple(target))
        try:
            self._api.resize_to(written, pod.container, step.spec)
        except DeniedError as error:
            _log.info("resize rejected %s %s", logged, fields(reason=error))
            return error.message
        _log.info("pod resized %s %s", logged, fields(reason=step.record.reason))
        return ""

    def _report(self, pod: NodePod, step: PodResize | RecordUpdate, now: datetime) -> None:
        if step.event is None:
            return
        self._metrics.count_resize(step.event)
        # Each resize has one time, so a repeated step creates no second event.
        self._create_event(pod, tuning_event(step.event, step.message), now, step.record.since)

    def _report_state(self, node: TunedNode, pods: Sequence[NodePod], now: datetime) -> None:
        """Update the metrics of the node; create one event for each pod that cannot be sized."""
        self._metrics.set_requests(node.name, total(each.spec.request for each in node.pods))
        keys = {each.view.uid: each.view.key for each in pods}
        self._metrics.set_pods(node.name, {keys[pod.uid]: _figures(pod) for pod in node.pods})
        found = {(each.view.uid, text): each for each in pods if (text := _problem(each))}
        before, self._obstacles[node.name] = self._obstacles.get(node.name, set()), set(found)
        for uid, text in found.keys() - before:
            pod = found[uid, text]
            if pod.invalid:
                _log.warning("pod not sized %s", fields(pod=pod.view.key, reason=pod.invalid))
            if pod.tuned or pod.labelled:
                event = obstacle_event(text) if pod.obstacle else profile_event(text)
                self._create_event(pod, event, now, "")

    def _create_event(self, pod: NodePod, event: ObjectEvent, now: datetime, version: str) -> None:
        # The objects of a list have neither kind nor version.
        raw = {**pod.raw, "apiVersion": "v1", "kind": "Pod"}
        self._objects.create_event(raw, event, timestamp(now), version)

    def _delay(self, plan: NodePlan, node: TunedNode) -> float:
        delays = [self._settings.sizing_round_seconds]
        delays += [] if plan.check_after_seconds is None else [plan.check_after_seconds]
        delays += [WAIT_SECONDS] if node.pending else []
        return min(delays)

    def _forget(self, node: str) -> None:
        self._waiting.drop(node)
        self._metrics.drop(node)
        self._obstacles.pop(node, None)


def _problem(pod: NodePod) -> str:
    """Return why a pod cannot be sized, or else why it is sized without facts; empty if neither."""
    return pod.obstacle or (pod.profile_error if pod.tuned else "")


def _figures(pod: TunedPod) -> PodFigures:
    milli_cpu = pod.spec.limit_milli_cpu
    percent = gain_percent(pod.record, pod.measured_micro_steps_per_second or None)
    return PodFigures(
        cpus=None if milli_cpu is None else milli_cpu / 1000,
        memory=pod.spec.limit_memory,
        gain=None if percent is None else percent / 100,
    )
