"""Carries out a trial: keeps pods in flight, kills parts, and judges each moment."""

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from localcluster import access
from localcluster.access import NodeAccess
from sharetest import judge
from sharetest.judge import Findings, Judged, PodVerdict
from sharetest.pods import NAMESPACE, PODS, RandomPod, draw, manifest
from soaktest import namespace
from soaktest.client import Client, RejectedError, UnavailableError

PARTS: Final = (
    "gputopo-extender",
    "kube-scheduler",
    "gputopo-deviceplugin",
    "gputopo-mps",
    "gputopo-operator",
    "kubelet",
)
"""What is killed. The pods of a killed program start again; kubelet is started by its node."""

_TOPOLOGIES: Final = "/apis/gputopo.io/v1alpha1/gputopologies"
_LOOK_SECONDS: Final = 0.2
_PLACED_SECONDS: Final = 120.0
_DOWN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a trial does.

    Attributes:
        pods: number of pods.
        at_once: most pods that have not ended.
        sharing: part of the pods that request a share.
        kill_seconds: time between two kills; 0 for none.
    """

    pods: int
    at_once: int
    sharing: float
    kill_seconds: float
    seed: int


class Trial:
    """Runs random pods on a cluster that shares GPUs."""

    def __init__(self, client: Client, nodes: NodeAccess, image: str, settings: Settings) -> None:
        self._client = client
        self._nodes = nodes
        self._image = image
        self._settings = settings
        self._rng = random.Random(settings.seed)  # noqa: S311 - repeatable on purpose
        self.findings = Findings()
        self.kills = Counter[str]()
        self.seconds = 0.0

    def run(self) -> list[Judged]:
        """Carry out the trial and return each pod with its verdict."""
        namespace.create(self._client, NAMESPACE)
        began = time.monotonic()
        try:
            return self._run(began)
        finally:
            self.seconds = time.monotonic() - began
            self._client.delete(f"/api/v1/namespaces/{NAMESPACE}")

    def _run(self, began: float) -> list[Judged]:
        settings, rng = self._settings, self._rng
        waiting = [draw(n, rng, sharing=settings.sharing) for n in range(settings.pods)]
        in_flight: dict[str, tuple[RandomPod, float]] = {}
        done: list[Judged] = []
        kill_at = began + settings.kill_seconds
        while waiting or in_flight:
            while waiting and len(in_flight) < settings.at_once and not _has_late(in_flight):
                pod = waiting.pop(0)
                self._client.create(PODS, manifest(pod, self._image))
                in_flight[pod.name] = pod, time.monotonic()
            if settings.kill_seconds and waiting and time.monotonic() >= kill_at:
                self._kill(rng.choice(PARTS))
                kill_at = time.monotonic() + settings.kill_seconds
            time.sleep(_LOOK_SECONDS)
            with suppress(UnavailableError):
                self._look(in_flight, done)
        return done

    def _kill(self, part: str) -> None:
        if part == "kubelet":
            node = self._rng.choice(("n1", "n2", "n3"))
            self._nodes.set_kubelet(node, on=False)
            time.sleep(_DOWN_SECONDS)
            self._nodes.set_kubelet(node, on=True)
        else:
            access.kill(self._nodes, part)
        self.kills[part] += 1

    def _look(self, in_flight: dict[str, tuple[RandomPod, float]], done: list[Judged]) -> None:
        """Judge this moment; judge and delete the pods that have ended or are late."""
        pods = self._client.get(PODS)["items"]
        topologies = self._client.get(_TOPOLOGIES)["items"]
        judge.judge_moment(pods, topologies, self.findings)
        for document in pods:
            one = in_flight.get(document["metadata"]["name"])
            if one is not None and (judged := self._judge(document, *one)) is not None:
                done.append(judged)
                del in_flight[one[0].name]
                self._client.delete(f"{PODS}/{one[0].name}")

    def _judge(self, document: Mapping[str, Any], pod: RandomPod, since: float) -> Judged | None:
        if document["status"]["phase"] in {"Succeeded", "Failed"}:
            log = ""
            with suppress(RejectedError):  # a pod that kubelet rejected has no log
                log = self._client.text(f"{PODS}/{pod.name}/log")
            return judge.judge_ended(pod, document, log)
        if time.monotonic() - since > _PLACED_SECONDS and not document["spec"].get("nodeName"):
            conditions = document["status"].get("conditions") or []
            messages = [each.get("message", "") for each in conditions]
            return Judged(pod, PodVerdict.LATE, "".join(messages))
        return None


def _has_late(in_flight: Mapping[str, tuple[RandomPod, float]]) -> bool:
    """Return whether a pod waits so long that no pod may be created before it."""
    return any(time.monotonic() - since > _PLACED_SECONDS / 3 for _, since in in_flight.values())
