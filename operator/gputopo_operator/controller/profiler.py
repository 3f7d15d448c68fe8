"""Measures a pod with several CPU limits: reads its state, calls the decision, resizes the pod."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from gputopo.profiling.decide import next_step
from gputopo.profiling.finish import POLL_SECONDS, is_restorable, raises_request
from gputopo.profiling.model import (
    Done,
    ProfilingSituation,
    Resize,
    Restore,
    Step,
    Wait,
)
from gputopo.runtime.log import fields
from gputopo.runtime.times import timestamp, utc
from gputopo.tuning.measured import CpusToMeasure, cpus_to_measure
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ApiError, ConflictError, DeniedError
from gputopo_kube.podmodel import PodError
from gputopo_kube.tuned_node import parse_node_pods, parse_tuned_node
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.controller.work_queue import CONFLICT_DELAY_SECONDS
from gputopo_operator.decision.profiling_events import profiling_event
from gputopo_operator.parse.profiling import (
    available_milli_cpu,
    parse_profiled_pod,
    waiting_milli_cpu,
)
from gputopo_operator.parse.samples import samples_of
from gputopo_operator.settings import OperatorSettings

_log = logging.getLogger(__name__)


class Profiler:
    """Measures pods with several CPU limits. Its methods block; any thread may call them."""

    def __init__(
        self,
        api: ProfilingApi,
        objects: JobApi,
        settings: OperatorSettings,
        clock: Callable[[], datetime] = utc,
    ) -> None:
        self._api = api
        self._objects = objects
        self._resource = settings.resource
        self._namespaces = settings.namespace_names
        self._clock = clock

    def advance(self, key: ObjectKey) -> float | None:
        """Do the next step of a pod's measurement; return the seconds until the next call, or None.

        Raises:
            ApiError: a request failed; the caller tries again later.
        """
        try:
            return self._advance(key)
        except ConflictError as error:
            _log.debug("write conflict, trying again %s", fields(pod=key, reason=error))
            return CONFLICT_DELAY_SECONDS
        except PodError as error:
            _log.warning("pod not measured %s", fields(pod=key, reason=error))
            return None

    def _advance(self, key: ObjectKey) -> float | None:
        rejection = ""
        while True:  # not endless: the decision does not repeat a rejected resize
            raw = self._api.pod(key)
            situation = None if raw is None else self._read(key, raw, rejection)
            if raw is None or situation is None:
                return None
            step = next_step(situation)
            rejection = self._carry_out(key, raw, step)
            self._report(raw, step, situation)
            if isinstance(step, Wait):
                _log.debug("pod not resized %s", fields(pod=key, reason=step.reason))
                return step.seconds
            if isinstance(step, Done):
                return None
            if not rejection:
                return POLL_SECONDS

    def _read(self, key: ObjectKey, raw: Document, rejection: str) -> ProfilingSituation | None:
        """Return the input of the decision, or None if the pod needs no decision."""
        pod, request = parse_profiled_pod(raw, self._resource)
        if pod.state.restored if pod.state else not pod.requested:
            return None
        now, budget = self._clock(), request.profiling_seconds
        situation = ProfilingSituation(now, pod, budget, rejection=rejection)
        ended = pod.state is not None and pod.state.result is not None
        if ended and not raises_request(situation):
            return situation
        name = request.profile
        try:
            profile = self._objects.profile(ObjectKey(key.namespace, name)) if name else None
            found = self._with_measured(situation, raw["spec"].get("nodeName", ""), profile)
        except ApiError:
            if ended:
                return situation  # the restore depends on no other object
            raise
        return replace(found, is_restorable=is_restorable(found))

    def _with_measured(
        self, situation: ProfilingSituation, node: str, profile: Document | None
    ) -> ProfilingSituation:
        """Add samples of the pod and its GPUProfile, and the node's free CPUs to ``situation``."""
        pod = situation.pod
        samples = None if profile is None else samples_of(profile)
        reported = samples_of(self._objects.topology(node) or {})
        own = tuple(each for each in (*(samples or ()), *reported) if each.pod_uid == pod.uid)
        situation = replace(
            situation, own=own, profile=samples, available_milli_cpu=0, waiting_milli_cpu=None
        )
        return self._with_cpus(situation, node) if own or pod.state else situation

    def _with_cpus(self, situation: ProfilingSituation, node: str) -> ProfilingSituation:
        """Add how much CPU the pod may use on its node, and the CPU requests of pending pods.

        If a measurement lowers the CPU request, a pending pod could take the CPUs that become free.
        A request below the limit is never lowered, so then pending pods are not read. Add nothing
        if the operator may not read nodes or pods.
        """
        pod = situation.pod
        lowers_request = pod.cpu is not None and pod.cpu.request == pod.cpu.limit
        try:
            found = self._api.node(node)
            on_node = self._api.pods_on(node)
            pending = self._api.first_pending_pods() if lowers_request else {}
        except DeniedError as error:
            _log.info("CPUs of the node not read %s", fields(node=node, reason=error))
            return situation
        available = available_milli_cpu(
            found or {}, on_node, pod.uid, pod.container, self._resource
        )
        share, kept = self._shares(found, on_node, situation)
        return replace(
            situation,
            available_milli_cpu=max(0, available - kept),
            share_milli_cpu=share,
            waiting_milli_cpu=waiting_milli_cpu(pending),
        )

    def _shares(
        self, node: Document | None, on_node: list[Document], situation: ProfilingSituation
    ) -> CpusToMeasure:
        if node is None:
            return CpusToMeasure(0, 0)
        pods = parse_node_pods(on_node, self._resource, self._namespaces, situation.now)
        tuned = parse_tuned_node(node, pods, self._resource, {}, {}, situation.now)
        return cpus_to_measure(tuned, situation.pod.uid)

    def _carry_out(self, key: ObjectKey, raw: Document, step: Step) -> str:
        """Write the state annotation, then resize. Return why the resize was rejected, or ""."""
        if isinstance(step, Wait):
            return ""
        written = self._api.write_state(raw, step.state)
        if not isinstance(step, Resize | Restore):
            _log.info("pod measured %s", fields(pod=key, result=step.state.result))
            return ""
        target = step.state.target
        try:
            self._api.resize_cpus(written, step.state.container, target)
        except DeniedError as error:
            _log.info("resize rejected %s", fields(pod=key, milli_cpu=target.limit, reason=error))
            return error.message
        _log.info("pod resized %s", fields(pod=key, milli_cpu=target.limit))
        return ""

    def _report(self, raw: Document, step: Step, situation: ProfilingSituation) -> None:
        before, budget = situation.pod.state, situation.budget_seconds
        event = profiling_event(step, first=before is None, budget_seconds=budget)
        if event is None:
            return
        # Each resize has one time, so a repeated step creates no second event.
        version = "" if isinstance(step, Wait) else step.state.since
        self._objects.create_event(raw, event, timestamp(situation.now), version)
