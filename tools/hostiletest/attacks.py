"""The attacks of a hostile tenant that are more than one object."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from typing import Final

from gputopo.api.names import (
    PROFILE_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
)
from hostiletest import manifests
from hostiletest.tenant import Replies, Tenant
from soaktest.client import Object, RejectedError, UnavailableError
from soaktest.manifests import job

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_PROFILES: Final = ("second", "first")
_START_SECONDS: Final = 60.0
_BIND_SECONDS: Final = 4.0
_JOB_SECONDS: Final = 3600.0


def forge_profiling_state(tenant: Tenant, pod: str, replies: Replies) -> None:
    """Write that a measurement has taken far more CPUs from a pod than the node has."""
    uid = tenant.pod(pod)["metadata"]["uid"]
    text = manifests.profiling_state(uid, datetime.now(UTC))
    replies.send(lambda: tenant.annotate(pod, {PROFILING_STATE_ANNOTATION: text}))


def hold_queue(
    tenant: Tenant, image: str, gpus: int, *, first: int = 0, node: str | None = None
) -> None:
    """Create GPUJobs of one GPU each in a namespace whose quota forbids their pods.

    Args:
        tenant: who creates them.
        image: of their pods.
        gpus: number of GPUJobs.
        first: number of the first one.
        node: their node; None for any.
    """
    for number in range(first, first + gpus):
        made = job(f"held-{number}", 1, image, _JOB_SECONDS, "Ring")
        selector = {"kubernetes.io/hostname": node} if node else {}
        made["spec"]["template"]["spec"]["nodeSelector"] = selector
        tenant.client.create(tenant.custom("gpujobs"), made)


def hold_ensemble(
    tenant: Tenant, image: str, gpus: int, *, name: str = "held", node: str = ""
) -> None:
    """Create a GPUEnsemble in a namespace whose quota forbids its pods."""
    made = manifests.ensemble(name, image, gpus, node)
    tenant.client.create(tenant.custom("gpuensembles"), made)


def forbidden(tenant: Tenant) -> int:
    """Return the number of pods that the quota has forbidden, from the events about them."""
    found = tenant.client.get(tenant.events)["items"]
    return sum(each.get("count") or 1 for each in found if each["reason"] == "FailedCreate")


class Repeated:
    """Repeats an attack in a thread until the end of the context.

    Attributes:
        replies: what the API server replied.
    """

    def __init__(self, every_seconds: float) -> None:
        self.replies = Replies()
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="attack", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current write."""
        self._ended.set()
        self._thread.join()

    def once(self) -> None:
        """Attack once."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._ended.wait(self._every_seconds):
            try:
                self.once()
            except UnavailableError:
                continue


class ChangingProfile(Repeated):
    """Changes the GPUProfile of a running pod again and again."""

    def __init__(self, tenant: Tenant, pod: str, every_seconds: float) -> None:
        super().__init__(every_seconds)
        self._tenant, self._pod, self._names = tenant, pod, cycle(_PROFILES)

    def once(self) -> None:
        """Write the other name."""
        name = next(self._names)
        self.replies.send(lambda: self._tenant.annotate(self._pod, {PROFILE_ANNOTATION: name}))


@dataclass(slots=True)
class Race:
    """Pods whose tenant changes their GPU memory between Binding and admission.

    Attributes:
        bound: number of pods that a node got.
        won: number of them that kubelet rejected because of their memory.
        replies: what the API server replied to the changes.
        messages: of all pods that kubelet rejected.
    """

    bound: int = 0
    won: int = 0
    replies: Replies = field(default_factory=Replies)
    messages: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        """Return the numbers and messages."""
        return (
            f"{self.won} of {self.bound} pods rejected by kubelet for their memory; {self.replies}"
        )


def race_names(tries: int) -> list[str]:
    """Return names of pods for one call of :func:`race`."""
    return [f"race-{time.monotonic_ns()}-{number}" for number in range(tries)]


def race(
    tenant: Tenant, image: str, nodes: Sequence[str], names: Sequence[str], result: Race
) -> None:
    """Create sharing pods, change each one at its Binding, and add the result to ``result``."""
    version = tenant.client.get(tenant.pods)["metadata"]["resourceVersion"]
    watcher = threading.Thread(
        target=_change_bound, args=(tenant, {*names}, version, result.replies)
    )
    watcher.start()
    for name, node in zip(names, cycle(nodes), strict=False):
        tenant.client.create(tenant.pods, manifests.sharing_pod(name, image, node, ""))
    watcher.join()
    for pod in _ended_or_running(tenant, {*names}):
        result.bound += bool(pod["spec"].get("nodeName"))
        if pod["status"].get("phase") in _ENDED:
            message = f"{pod['status'].get('reason')}: {pod['status'].get('message')}"
            result.messages.add(message)
            # On a machine that is very slow, kubelet rejects pods for other reasons too.
            result.won += "memory" in message
    for name in names:
        tenant.client.delete(f"{tenant.pods}/{name}", gracePeriodSeconds="0")


def _change_bound(tenant: Tenant, names: set[str], version: str, replies: Replies) -> None:
    """Change the memory of each pod at the first event that shows its node."""
    deadline = time.monotonic() + _BIND_SECONDS
    with suppress(UnavailableError, RejectedError):  # a part of the cluster was killed
        while names and time.monotonic() < deadline:
            for _, pod in tenant.client.watch(tenant.pods, version):  # it lasts 5 s at most
                version = pod["metadata"]["resourceVersion"]
                _change_if_bound(tenant, pod, names, replies)
                if not names:
                    break


def _change_if_bound(tenant: Tenant, pod: Object, names: set[str], replies: Replies) -> None:
    name = pod["metadata"]["name"]
    if name in names and pod["spec"].get("nodeName"):
        names.remove(name)
        change = {SHARING_MEMORY_ANNOTATION: manifests.TOO_MUCH_MEMORY}
        replies.send(partial(tenant.annotate, name, change))


def _ended_or_running(tenant: Tenant, names: set[str]) -> list[Object]:
    """Wait until the bound pods run or have ended; return all pods."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        found = [pod for pod in _pods(tenant) if pod["metadata"]["name"] in names]
        starting = [
            pod
            for pod in found
            if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending"
        ]
        if not starting or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def _pods(tenant: Tenant) -> list[Object]:
    try:
        found: list[Object] = tenant.client.get(tenant.pods)["items"]
    except RejectedError:
        return []
    return found
