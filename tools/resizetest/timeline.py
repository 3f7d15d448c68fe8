"""The amounts of all pods of a node over time. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from resizetest.amounts import Amount, PodAmounts


@dataclass(frozen=True, slots=True)
class Moment:
    """The pods of the node from a time on.

    Attributes:
        seconds: since the start of the recording.
        pods: by UID.
    """

    seconds: float
    pods: Mapping[str, PodAmounts]

    def of(self, namespace: str) -> dict[str, PodAmounts]:
        """Return the pods of a namespace."""
        own = f"{namespace}/"
        return {uid: pod for uid, pod in self.pods.items() if pod.name.startswith(own)}

    @property
    def allocated(self) -> Amount:
        """Sum of what kubelet counts for the pods."""
        total = Amount()
        for pod in self.pods.values():
            total = total.plus(pod.allocated)
        return total


@dataclass(slots=True)
class Timeline:
    """All moments in order; each has the pods as of one event of the watch."""

    moments: list[Moment] = field(default_factory=list)

    def add(self, seconds: float, pods: Mapping[str, PodAmounts]) -> bool:
        """Add a moment if amounts or restarts have changed; return whether they have."""
        if self.moments and self.moments[-1].pods == pods:
            return False
        self.moments.append(Moment(seconds, dict(pods)))
        return True

    def end(self, seconds: float) -> None:
        """Add a last moment, with the pods of the moment before it."""
        self.moments.append(Moment(seconds, self.moments[-1].pods))

    def last_change(self, namespace: str) -> float:
        """Return the seconds of the last change of a namespace's pods, 0 if there was none."""
        later = self.moments[-1]
        for moment in reversed(self.moments):
            if moment.of(namespace) != later.of(namespace):
                return later.seconds
            later = moment
        return 0.0

    def above(self, allocatable: Amount) -> Iterator[Moment]:
        """Yield the moments at which kubelet had allocated more than the node has."""
        for moment in self.moments:
            allocated = moment.allocated
            if any(held > limit for held, limit in zip(allocated, allocatable, strict=True)):
                yield moment

    def restarted(self) -> dict[str, list[str]]:
        """Return the names of pods that restarted or started again, with the times of starts."""
        starts: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        restarts: dict[str, int] = {}
        for moment in self.moments:
            for uid, pod in moment.pods.items():
                names[uid] = pod.name
                restarts[uid] = max(pod.restarts, restarts.get(uid, 0))
                known = starts.setdefault(uid, [])
                known += [each for each in pod.started if each and each not in known]
        containers = {uid: self._containers(uid) for uid in starts}
        return {
            names[uid]: times
            for uid, times in starts.items()
            if restarts[uid] or len(times) > containers[uid]
        }

    def _containers(self, uid: str) -> int:
        """Return the number of containers of a pod."""
        return max(len(each.pods[uid].started) for each in self.moments if uid in each.pods)
