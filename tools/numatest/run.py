"""Carries out the trials: sets the policy of the kubelets, and keeps pods in flight."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.access import NodeAccess
from numatest import judge
from numatest.judge import Judged, PolicyTrial
from numatest.pods import NAMESPACE, PODS, RandomPod, draw, kubelet_changes, manifest
from showcase.kubectl import wait_for
from soaktest import namespace
from soaktest.client import Client

_TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 3.0
_PLACED_SECONDS = 90.0
_FIRST_AFTER_SECONDS = 20.0
"""No pod is created while another one has waited for longer than this. Otherwise a pod with all
GPUs of a node would starve behind small ones, as kube-scheduler reserves no node for it."""


@dataclass(slots=True)
class _InFlight:
    """A pod that has not ended, when it was created, and when it was bound."""

    pod: RandomPod
    since: float
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a trial does.

    Attributes:
        nodes: the nodes whose kubelets get the policy.
        pods: pods of each policy.
        at_once: most pods that have not ended.
        with_cpus: probability of an exclusive CPU.
    """

    nodes: Sequence[str]
    pods: int
    at_once: int
    with_cpus: float
    scope: str
    seed: int


class Trials:
    """Runs pods on a cluster whose agents report NUMA nodes to kubelet with any policy."""

    def __init__(self, client: Client, nodes: NodeAccess, image: str, settings: Settings) -> None:
        self._client = client
        self._nodes = nodes
        self._image = image
        self._settings = settings

    def run(self, policies: Sequence[str]) -> list[PolicyTrial]:
        """Carry out one trial for each policy; the kubelets get their own values back."""
        namespace.create(self._client, NAMESPACE)
        try:
            return [self._trial(policy) for policy in policies]
        finally:
            self._client.delete(f"/api/v1/namespaces/{NAMESPACE}")
            for node in self._settings.nodes:
                self._nodes.configure_kubelet(node, {})

    def _trial(self, policy: str) -> PolicyTrial:
        settings = self._settings
        for node in settings.nodes:
            self._nodes.configure_kubelet(node, kubelet_changes(policy, settings.scope))
        wait_for(f"NUMA nodes with {policy}", lambda: self._published(policy), timeout_s=90)
        time.sleep(_PAUSE_SECONDS)
        rng = random.Random(settings.seed)  # noqa: S311 - repeatable on purpose
        waiting = [draw(n, rng, with_cpus=settings.with_cpus) for n in range(settings.pods)]
        began, in_flight = time.monotonic(), dict[str, _InFlight]()
        done: list[Judged] = []
        while waiting or in_flight:
            while waiting and len(in_flight) < settings.at_once:
                if self._is_second_with_cpus(waiting[0], in_flight) or _has_late(in_flight):
                    break
                pod = waiting.pop(0)
                self._client.create(PODS, manifest(pod, self._image, self._node))
                in_flight[pod.name] = _InFlight(pod, time.monotonic())
            time.sleep(_LOOK_SECONDS)
            done += self._ended(in_flight, policy)
        return PolicyTrial(policy, done, time.monotonic() - began)

    @property
    def _node(self) -> str | None:
        """The node that all pods request, if there is only one."""
        return self._settings.nodes[0] if len(self._settings.nodes) == 1 else None

    def _is_second_with_cpus(self, pod: RandomPod, in_flight: Mapping[str, _InFlight]) -> bool:
        """Return whether each node may already have a pod with its only exclusive CPU."""
        with_cpus = sum(each.pod.cpus for each in in_flight.values())
        return bool(pod.cpus) and with_cpus >= len(self._settings.nodes)

    def _published(self, policy: str) -> bool:
        """Return whether all agents report this policy, and NUMA nodes to their kubelets."""
        ready = 0
        for each in self._client.get(_TOPOLOGIES)["items"]:
            if each["metadata"]["name"] not in self._settings.nodes:
                continue
            status = each["status"]
            known = status.get("alignment", {}).get("policy", "none")
            conditions = {one["type"]: one["status"] for one in status["conditions"]}
            serves = conditions["Ready"] == conditions.get("NUMAPublished") == "True"
            ready += serves and known == policy
        return ready == len(self._settings.nodes)

    def _ended(self, in_flight: dict[str, _InFlight], policy: str) -> list[Judged]:
        """Judge and delete the pods that have ended or will never be placed."""
        found = []
        for document in self._client.get(PODS)["items"]:
            one = in_flight.get(document["metadata"]["name"])
            if one is not None and (judged := self._judge(document, one, policy)) is not None:
                found.append(judged)
                self._client.delete(f"{PODS}/{one.pod.name}", gracePeriodSeconds="0")
                del in_flight[one.pod.name]
        return found

    def _judge(self, document: Mapping[str, Any], one: _InFlight, policy: str) -> Judged | None:
        age = time.monotonic() - one.since
        bound = bool(document["spec"].get("nodeName"))
        if bound and one.waited is None:
            one.waited = age
        if document["status"]["phase"] in {"Succeeded", "Failed"}:
            waited = age if one.waited is None else one.waited
            log = ""
            if document["status"]["phase"] == "Succeeded":
                log = self._client.text(f"{PODS}/{one.pod.name}/log")
            return judge.judge_ended(one.pod, document, log, policy, waited)
        conditions = document["status"].get("conditions") or []
        messages = [
            each.get("message", "") for each in conditions if each["type"] == "PodScheduled"
        ]
        message = "" if bound else "".join(messages)
        judged = judge.judge_pending(one.pod, message, policy)
        return judged or (judge.late(one.pod, message) if age > _PLACED_SECONDS else None)


def _has_late(in_flight: Mapping[str, _InFlight]) -> bool:
    latest = time.monotonic() - _FIRST_AFTER_SECONDS
    return any(each.waited is None and each.since < latest for each in in_flight.values())
