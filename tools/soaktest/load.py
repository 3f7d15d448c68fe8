"""The load: pods and GPUJobs of 1 to 8 GPUs that are created and deleted all the time."""

import random
import time
from dataclasses import dataclass

from gputopo.api.names import (
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from localcluster.access import NodeAccess
from soaktest import manifests
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal
from soaktest.linger import Lingering
from soaktest.pod_watcher import PodWatcher
from soaktest.reasons import kind_of
from soaktest.world import PodView

NAMESPACE = "gputopo-soak"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_JOBS = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpujobs"
_WEIGHT_OF_SIZE = {1: 34, 2: 26, 3: 10, 4: 14, 5: 4, 6: 3, 7: 2, 8: 7}
_PATTERNS = [kind.value for kind in PatternKind if kind is not PatternKind.CUSTOM]
# Somewhat more than there is, so that some pods wait.
WANTED_GPUS = 34
_WANTED_GPUS_BEFORE_WAVE = 8
_PATIENCE_SECONDS = 60.0
_JOB_PATIENCE_SECONDS = 180.0
_PHASE_PATIENCE_SECONDS = 90.0
"""A job that has waited in the queue, or for another admission, may have got its GPUs just now."""
_LONGEST_WAIT = "longest wait of a GPUJob in the queue (s)"
_SHARE_OF_JOBS = 0.12
_SHARE_DELETED_EARLY = 0.05
_SHARE_LINGERING = 0.08
_LINGER_SECONDS = (0.5, 6.0)


@dataclass(slots=True)
class Item:
    """A pod or GPUJob of the load.

    Attributes:
        lives_seconds: how long it runs until it is deleted, or until a job succeeds.
        lingers_seconds: how long its processes outlive a deletion by force; None for a pod that is
            deleted as usual.
        phase: of a job.
        phase_since: when the phase of a job was first seen.
    """

    name: str
    uid: str
    gpus: int
    made: float
    lives_seconds: float
    is_job: bool
    lingers_seconds: float | None = None
    phase: str | None = None
    phase_since: float = 0.0

    @property
    def path(self) -> str:
        """Its address on the API server."""
        return f"{_JOBS if self.is_job else _PODS}/{self.name}"


class Load:
    """Keeps the cluster full of pods that run for seconds.

    With ``waves``, it creates no pods until most of the GPUs are free, and then many at once.
    """

    def __init__(
        self,
        nodes: NodeAccess,
        client: Client,
        pod_watcher: PodWatcher,
        journal: Journal,
        rng: random.Random,
        image: str,
        *,
        waves: bool = False,
        wanted_gpus: int = WANTED_GPUS,
    ) -> None:
        self._client, self._pod_watcher, self._journal = client, pod_watcher, journal
        self._rng, self._image = rng, image
        self._most_gpus = wanted_gpus
        self._refill_below = _WANTED_GPUS_BEFORE_WAVE if waves else wanted_gpus
        self._items: list[Item] = []
        self._doomed: list[tuple[str, dict[str, str]]] = []
        self._lingering = Lingering(nodes, journal)
        self._made = 0
        self._jobs_seen = 0.0

    @property
    def wanted_gpus(self) -> int:
        """Number of requested GPUs of the items."""
        return sum(item.gpus for item in self._items)

    def step(self, *, create: bool = True) -> None:
        """Delete the pods whose time is over, and create new ones if wanted."""
        self._lingering.end_due()
        try:
            self._reap()
            if create and self.wanted_gpus < self._refill_below:
                while self.wanted_gpus < self._most_gpus:
                    self._make()
        except UnavailableError:
            time.sleep(0.2)

    def drain(self, seconds: float) -> bool:
        """Create nothing more; return whether all pods ended in time."""
        deadline = time.monotonic() + seconds
        while (self._items or self._doomed) and time.monotonic() < deadline:
            self.step(create=False)
            time.sleep(0.1)
        self._lingering.end_all()
        return not self._items

    def _make(self) -> None:
        self._made += 1
        (gpus,) = self._rng.choices(list(_WEIGHT_OF_SIZE), weights=list(_WEIGHT_OF_SIZE.values()))
        is_job = self._rng.random() < _SHARE_OF_JOBS
        lives = self._rng.uniform(0.3, 2.0)
        if self._rng.random() < _SHARE_DELETED_EARLY:
            lives = 0.0
        lingers = self._lingers() if not is_job else None
        name = f"{'job' if is_job else 'pod'}-{self._made}"
        body = self._job(name, gpus, lives) if is_job else self._pod(name, gpus, lingers)
        try:
            made = self._client.create(_JOBS if is_job else _PODS, body)
        except RejectedError as error:
            self._journal.note(f"create {name}: {error}")
            return
        except UnavailableError:
            # It may exist; the load does not wait for it.
            self._doomed.append((f"{_JOBS if is_job else _PODS}/{name}", {}))
            raise
        uid = made["metadata"]["uid"]
        self._items.append(Item(name, uid, gpus, time.monotonic(), lives, is_job, lingers))
        self._journal.count("GPUJobs created" if is_job else "pods created")

    def _lingers(self) -> float | None:
        """Return how long a pod's processes outlive its deletion by force; None for most pods."""
        if self._rng.random() > _SHARE_LINGERING:
            return None
        return self._rng.uniform(*_LINGER_SECONDS)

    def _pod(self, name: str, gpus: int, lingers: float | None) -> Object:
        make = manifests.pod if lingers is None else manifests.stubborn_pod
        return make(name, gpus, self._image, self._annotations())

    def _annotations(self) -> dict[str, str]:
        return {
            PATTERN_ANNOTATION: self._rng.choice(_PATTERNS),
            SENSITIVITY_ANNOTATION: self._rng.choice(list(Sensitivity)).value,
            POLICY_ANNOTATION: self._rng.choice(list(PolicyName)).value,
        }

    def _job(self, name: str, gpus: int, seconds: float) -> Object:
        return manifests.job(name, gpus, self._image, seconds, self._rng.choice(_PATTERNS))

    def _reap(self) -> None:
        phases = self._job_phases()
        for item in list(self._items):
            if self._job_ended(item, phases) if item.is_job else self._pod_ended(item):
                self._items.remove(item)
                self._doom(item)
        while self._doomed:
            path, query = self._doomed[-1]
            self._client.delete(path, **query)
            self._doomed.pop()

    def _doom(self, item: Item) -> None:
        self._journal.note(f"delete {item.name}")
        if item.lingers_seconds is None:
            self._doomed.append((item.path, {}))
            return
        self._lingering.begin(item.uid, item.name, item.lingers_seconds)
        self._doomed.append((item.path, {"gracePeriodSeconds": "0"}))

    def _pod_ended(self, item: Item) -> bool:
        """Whether the pod's time is over, or it failed or waited too long."""
        now = time.monotonic()
        pod = self._pod_watcher.seen.get(item.uid)
        if pod is not None and pod.phase == "Failed":
            self._journal.count_rejection(pod)
            return True
        return self._removed(item) or self._lived(item, pod, now)

    def _removed(self, item: Item) -> bool:
        """Whether the pod garbage collector has removed the pod of a deleted Node."""
        removed = item.uid in self._pod_watcher.gone_since
        self._journal.count("pods removed with their node", int(removed))
        return removed

    def _lived(self, item: Item, pod: PodView | None, now: float) -> bool:
        since = self._pod_watcher.running_since.get(item.uid)
        if since is not None:
            if now - since > item.lives_seconds:
                self._journal.count("pods that ran")
                return True
            return False
        if item.lives_seconds == 0:
            self._journal.count("pods deleted before they ran")
            return True
        if now - item.made > _PATIENCE_SECONDS:
            self._waited(item, pod)
            return True
        return False

    def _waited(self, item: Item, pod: PodView | None) -> None:
        what = f"pods that waited over {_PATIENCE_SECONDS:.0f} s"
        where = "not seen" if pod is None else "bound" if pod.node else kind_of(pod.why)
        self._journal.count(what)
        self._journal.count(f"{what}: {item.gpus} GPUs, {where}")
        self._journal.note(f"waited too long: {item.name}, {item.gpus} GPUs, {pod}")

    def _job_phases(self) -> dict[str, Object]:
        """Return the status of every GPUJob by UID; it is read once a second."""
        if not any(item.is_job for item in self._items) or time.monotonic() < self._jobs_seen + 1:
            return {}
        self._jobs_seen = time.monotonic()
        listed = self._client.get(_JOBS)["items"]
        return {job["metadata"]["uid"]: job.get("status", {}) for job in listed}

    def _job_ended(self, item: Item, statuses: dict[str, Object]) -> bool:
        if not statuses:
            return False
        status = statuses.get(item.uid)
        if status is None:
            self._journal.finding("GPUJobs lost", f"{item.name} is not there any more")
            return True
        phase = status.get("phase")
        self._follow_phase(item, phase)
        why = "; ".join(
            f"{one['type']}={one['status']} {one['reason']}: {one['message']}"
            for one in status.get("conditions", [])
        )
        if phase == "Succeeded":
            self._journal.count("GPUJobs succeeded")
            return True
        if phase == "Failed":
            self._journal.count("GPUJobs failed, with the reason")
            self._journal.note(f"{item.name} failed: {why}")
            if not why:
                self._journal.finding("GPUJobs lost", f"{item.name} failed without a reason")
            return True
        if time.monotonic() - item.made > _JOB_PATIENCE_SECONDS:
            return self._judge_waiting(item, phase, why)
        return False

    def _follow_phase(self, item: Item, phase: str | None) -> None:
        if phase != item.phase:
            if item.phase == "Queued":
                self._journal.highest(_LONGEST_WAIT, round(time.monotonic() - item.made))
            item.phase, item.phase_since = phase, time.monotonic()

    def _judge_waiting(self, item: Item, phase: str | None, why: str) -> bool:
        """A job that waits for capacity has a reason in its status; any other is lost.

        Return False for a job that may still go on.
        """
        text = f"{item.name} ({item.gpus} GPUs) is {phase} after {_JOB_PATIENCE_SECONDS:.0f} s"
        if phase == "Queued":
            self._journal.count("GPUJobs that waited long in the queue")
            self._journal.note(f"{text}: {why}")
        elif phase == "Pending" and "Placed=False" in why:
            self._journal.count("GPUJobs that waited for room, and said so")
            self._journal.note(f"{text}: {why}")
        elif time.monotonic() - item.phase_since > _PHASE_PATIENCE_SECONDS:
            self._journal.finding("GPUJobs lost", f"{text}: {why}")
        else:
            return False
        return True
