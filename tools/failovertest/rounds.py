"""One round: a burst of pods, a fault of the leader during it, and the end of every pod."""

import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from failovertest import leader
from failovertest.leader import Replica
from gputopo.api.names import SCHEDULER_NAME
from localcluster.access import NodeAccess
from scaletest import fleet, objects
from showcase.kubectl import wait_for
from soaktest import manifests
from soaktest.client import Client, Object
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.world import PodView

How = Literal["killed", "frozen"]

_READY_SECONDS = 400.0  # kubelet restarts what failed again and again after ever longer pauses
_PLACED_SECONDS = 180.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round.

    Attributes:
        leader: the Pod that was killed or frozen.
        bound_before: bound pods at that time.
        bound_meanwhile: pods that others had bound when the frozen one continued.
        longest_gap_seconds: between two bindings.
        placed_seconds: from the first binding to the last.
        late_rejections: failed binds of the frozen one after it continued.
    """

    how: How
    leader: str
    pods: int
    bound_before: int
    bound_meanwhile: int
    longest_gap_seconds: float
    placed_seconds: float
    late_rejections: int


class Rounds:
    """Runs rounds on a cluster; each burst requests all of its GPUs."""

    def __init__(
        self,
        nodes: NodeAccess,
        client: Client,
        pod_watcher: PodWatcher,
        journal: Journal,
        rng: random.Random,
        image: str,
    ) -> None:
        self._nodes, self._client, self._pod_watcher = nodes, client, pod_watcher
        self._journal, self._rng, self._image = journal, rng, image

    def carry_out(self, how: How, real: int, simulated: int, number: int) -> Round:
        """Create one-GPU pods for the real and for the simulated nodes."""
        chosen = self._wait_ready()
        pods = self._pods(real, simulated, number)
        at = int(self._rng.uniform(0.1, 0.6) * len(pods))
        self._journal.write(f"{how}: {chosen.name} leads; {len(pods)} pods, after {at} are bound")
        with ThreadPoolExecutor(1) as background:
            made = background.submit(
                fleet.each, lambda pod: self._client.create(fleet.PODS, pod), pods
            )
            before = self._wait_bound(at)
            meanwhile, log_lines = self._break(how, chosen, len(pods))
            made.result()
        self._wait_bound(len(pods))
        done = self._make_round(how, chosen, before, meanwhile, log_lines)
        time.sleep(2.5)  # two looks of the inspector at the real nodes
        self._judge(len(pods))
        fleet.remove_pods(self._client)
        self._wait("the pods are gone", lambda: not self._mine())
        return done

    def _send(self, chosen: Replica, number: signal.Signals, what: str) -> None:
        self._journal.write(f"{leader.send(self._nodes, chosen, number)} processes {what}")

    def _wait_ready(self) -> Replica:
        """Wait until the leader and a standby are ready, and return the leader."""

        def ready() -> Replica | None:
            found = leader.replicas(self._client)
            leading = leader.leading(self._client)
            if len(found) < 2:  # noqa: PLR2004 - one to break and one to go on
                return None
            return next((replica for replica in found if replica.name == leading), None)

        return wait_for("two schedulers, one leading", ready, timeout_s=_READY_SECONDS)

    def _pods(self, real: int, simulated: int, number: int) -> list[Object]:
        pods = [
            objects.pod(f"sim-{number}-{place}", 1, SCHEDULER_NAME) for place in range(simulated)
        ]
        pods += [
            manifests.pod(f"real-{number}-{place}", 1, self._image, {}) for place in range(real)
        ]
        self._rng.shuffle(pods)
        return pods

    def _break(self, how: How, chosen: Replica, pods: int) -> tuple[int, list[str]]:
        """Kill or freeze the leader; a frozen one continues after another has placed some pods."""
        if how == "killed":
            self._send(chosen, signal.SIGKILL, "killed")
            return 0, []
        self._send(chosen, signal.SIGSTOP, "frozen")
        try:
            self._wait(
                "another leads", lambda: leader.leading(self._client) not in {"", chosen.name}
            )
            bound = self._bound()
            # In the midst of the other's work, so that both bind at once.
            other = self._wait_bound(min(pods, bound + (pods - bound) // 3))
        finally:
            since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._send(chosen, signal.SIGCONT, "continued")
        self._wait_bound(pods)
        time.sleep(1)
        return other - bound, leader.log_since(self._client, chosen, since)

    def _make_round(
        self, how: How, chosen: Replica, before: int, meanwhile: int, log_lines: Sequence[str]
    ) -> Round:
        times = sorted(self._pod_watcher.bound_since[pod.uid] for pod in self._mine() if pod.node)
        gaps = [later - sooner for sooner, later in pairwise(times)]
        for text in log_lines:
            self._journal.note(f"the frozen one said: {text}")
        done = Round(
            how=how,
            leader=chosen.name,
            pods=len(times),
            bound_before=before,
            bound_meanwhile=meanwhile,
            longest_gap_seconds=round(max(gaps, default=0.0), 2),
            placed_seconds=round(times[-1] - times[0], 2) if times else 0.0,
            late_rejections=sum("bind failed" in text for text in log_lines),
        )
        self._journal.write(str(done))
        return done

    def _judge(self, wanted: int) -> None:
        """Check that every pod has a GPU of its own; the watch has checked each event."""
        pods = self._mine()
        gpus = [gpu for pod in pods for gpu in pod.gpus]
        short = [pod.name for pod in pods if not pod.node or len(pod.gpus) != 1]
        if short or len(pods) != wanted:
            self._journal.finding("pods without a GPU", f"{len(pods)} of {wanted}: {short}")
        if len(set(gpus)) != len(gpus):
            self._journal.finding("double allocations", f"{len(gpus) - len(set(gpus))} GPUs")
        failed = [pod for pod in pods if pod.phase == "Failed"]
        for pod in failed:
            self._journal.count_rejection(pod)

    def _wait_bound(self, number: int) -> int:
        """Wait until so many pods are bound, and return their number."""
        self._wait(f"{number} pods are bound", lambda: self._bound() >= number)
        return self._bound()

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        try:
            wait_for(what, reached, timeout_s=_PLACED_SECONDS, interval_s=_LOOK_SECONDS)
        except TimeoutError as error:
            self._journal.finding("not reached", f"{error}; {self._bound()} are bound")

    def _bound(self) -> int:
        return sum(bool(pod.node) for pod in self._mine())

    def _mine(self) -> list[PodView]:
        return [pod for pod in self._pod_watcher.pods() if pod.namespace == fleet.NAMESPACE]
