"""The load: pods and GPUJobs of 1 to 8 GPUs, made and deleted all the time."""

import random
import time
from dataclasses import dataclass

from gputopo.api.enums import PatternKind, PolicyName, Sensitivity
from gputopo.api.names import (
    API_VERSION,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    RESOURCE,
    SCHEDULER_NAME,
    SENSITIVITY_ANNOTATION,
)
from soaktest.client import AwayError, Client, Object, RefusedError
from soaktest.follow import Follower
from soaktest.journal import Journal
from soaktest.reasons import kind_of
from soaktest.world import PodView

NAMESPACE = "gputopo-soak"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_JOBS = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpujobs"
_WEIGHT_OF_SIZE = {1: 34, 2: 26, 3: 10, 4: 14, 5: 4, 6: 3, 7: 2, 8: 7}
_PATTERNS = [kind.value for kind in PatternKind if kind is not PatternKind.CUSTOM]
# Somewhat more than there is, so that some pods wait.
_WANTED_GPUS = 34
_PATIENCE_SECONDS = 60.0
_JOB_PATIENCE_SECONDS = 180.0
_SHARE_OF_JOBS = 0.12
_SHARE_DELETED_EARLY = 0.05
# Ends at once when told to, and holds its GPUs until then.
_UNTIL_TOLD = ["sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]


@dataclass(slots=True)
class Item:
    """A pod or GPUJob of the load.

    Attributes:
        lives_seconds: how long it runs before it is deleted, or ends by itself if it is a job.
    """

    name: str
    uid: str
    gpus: int
    made: float
    lives_seconds: float
    is_job: bool


class Load:
    """Keeps as many pods as the cluster holds, each for seconds."""

    def __init__(
        self,
        client: Client,
        follower: Follower,
        journal: Journal,
        rng: random.Random,
        image: str,
    ) -> None:
        self._client, self._follower, self._journal = client, follower, journal
        self._rng, self._image = rng, image
        self._items: list[Item] = []
        self._doomed: list[str] = []
        self._made = 0
        self._jobs_seen = 0.0

    @property
    def wanted_gpus(self) -> int:
        """GPUs that the items ask for."""
        return sum(item.gpus for item in self._items)

    def step(self, *, create: bool = True) -> None:
        """Delete what has lived its time and, if wanted, make new ones."""
        try:
            self._reap()
            while create and self.wanted_gpus < _WANTED_GPUS:
                self._make()
        except AwayError:
            time.sleep(0.2)

    def drain(self, seconds: float) -> bool:
        """Make nothing more; return whether all had an end within the time."""
        deadline = time.monotonic() + seconds
        while (self._items or self._doomed) and time.monotonic() < deadline:
            self.step(create=False)
            time.sleep(0.1)
        return not self._items

    def _make(self) -> None:
        self._made += 1
        (gpus,) = self._rng.choices(list(_WEIGHT_OF_SIZE), weights=list(_WEIGHT_OF_SIZE.values()))
        is_job = self._rng.random() < _SHARE_OF_JOBS
        lives = self._rng.uniform(0.3, 2.0)
        if self._rng.random() < _SHARE_DELETED_EARLY:
            lives = 0.0
        name = f"{'job' if is_job else 'pod'}-{self._made}"
        body = self._job(name, gpus, lives) if is_job else self._pod(name, gpus)
        try:
            made = self._client.create(_JOBS if is_job else _PODS, body)
        except RefusedError as error:
            self._journal.note(f"create {name}: {error}")
            return
        except AwayError:
            # It may be there all the same; nobody waits for it.
            self._doomed.append(f"{_JOBS if is_job else _PODS}/{name}")
            raise
        uid = made["metadata"]["uid"]
        self._items.append(Item(name, uid, gpus, time.monotonic(), lives, is_job))
        self._journal.count("GPUJobs created" if is_job else "pods created")

    def _pod(self, name: str, gpus: int) -> Object:
        return pod_manifest(name, gpus, self._image, self._annotations())

    def _annotations(self) -> dict[str, str]:
        return {
            PATTERN_ANNOTATION: self._rng.choice(_PATTERNS),
            SENSITIVITY_ANNOTATION: self._rng.choice(list(Sensitivity)).value,
            POLICY_ANNOTATION: self._rng.choice(list(PolicyName)).value,
        }

    def _job(self, name: str, gpus: int, seconds: float) -> Object:
        container = {
            "name": "main",
            "image": self._image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", f"trap 'exit 1' TERM; sleep {seconds:.1f} & wait"],
        }
        template = {"spec": {"terminationGracePeriodSeconds": 2, "containers": [container]}}
        return {
            "apiVersion": API_VERSION,
            "kind": "GPUJob",
            "metadata": {"name": name},
            "spec": {
                "gpusPerReplica": gpus,
                "communication": {"pattern": self._rng.choice(_PATTERNS)},
                "template": template,
            },
        }

    def _reap(self) -> None:
        phases = self._job_phases()
        for item in list(self._items):
            if self._job_ended(item, phases) if item.is_job else self._pod_ended(item):
                self._items.remove(item)
                self._journal.note(f"delete {item.name}")
                self._doomed.append(f"{_JOBS if item.is_job else _PODS}/{item.name}")
        while self._doomed:
            self._client.delete(self._doomed[-1])
            self._doomed.pop()

    def _pod_ended(self, item: Item) -> bool:
        """Whether a pod has lived its time, failed, or waited too long."""
        now = time.monotonic()
        pod = self._follower.seen.get(item.uid)
        if pod is not None and pod.phase == "Failed":
            self._journal.refused(pod)
            return True
        since = self._follower.running_since.get(item.uid)
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
        """Return the status of every GPUJob by UID; asked for once a second."""
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
            self._judge_waiting(item, phase, why)
            return True
        return False

    def _judge_waiting(self, item: Item, phase: str | None, why: str) -> None:
        """A job that waits for room says so; any other is lost."""
        text = f"{item.name} ({item.gpus} GPUs) is {phase} after {_JOB_PATIENCE_SECONDS:.0f} s"
        if phase == "Pending" and "Placed=False" in why:
            self._journal.count("GPUJobs that waited for room, and said so")
            self._journal.note(f"{text}: {why}")
        else:
            self._journal.finding("GPUJobs lost", f"{text}: {why}")


def pod_manifest(
    name: str, gpus: int, image: str, annotations: dict[str, str], node: str | None = None
) -> Object:
    """Return a pod that holds its GPUs until it is told to end."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 2,
            "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": _UNTIL_TOLD,
                    "resources": {"limits": {RESOURCE: str(gpus)}},
                }
            ],
        },
    }
