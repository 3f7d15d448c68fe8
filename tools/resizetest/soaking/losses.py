"""Whether each job and pod that the soak has created runs until the soak deletes it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from resizetest.soaking.model import Expected, Finding, PodSize

LOST = "jobs lost"

START_SECONDS = 150.0
"""Until a pod must run. All pods of the soak fit on their nodes, if the others are cut."""

UNSEEN_SECONDS = 10.0
"""How late a watch may show that a pod is gone."""


@dataclass(slots=True)
class _Item:
    expected: Expected
    created: float
    runs_since: float | None = None
    missing_since: float | None = None


@dataclass(slots=True)
class Losses:
    """The jobs and pods that must exist now.

    Attributes:
        waits: seconds from the creation of each job or pod until it ran, by name.
    """

    waits: dict[str, float] = field(default_factory=dict)
    _items: dict[str, _Item] = field(default_factory=dict)

    def created(self, at: float, expected: Expected) -> None:
        """Note that a job or pod was created."""
        self._items[expected.name] = _Item(expected, at)

    def deleted(self, name: str) -> None:
        """Note that the soak deletes a job or pod."""
        del self._items[name]

    def see(
        self, at: float, pods: Iterable[PodSize], phases: Mapping[str, str]
    ) -> Iterable[Finding]:
        """Judge all of them.

        Args:
            at: time in seconds.
            pods: all pods of the namespace.
            phases: phases of the GPUJobs of the namespace, by name.
        """
        running = {pod.owner for pod in pods if pod.phase == "Running" and not pod.deleting}
        for name, item in self._items.items():
            if name in running:
                item.runs_since = at if item.runs_since is None else item.runs_since
                self.waits.setdefault(name, at - item.created)
                item.missing_since = None
            elif item.runs_since is not None:
                yield from self._stopped(at, item)
            elif at - item.created > START_SECONDS:
                yield Finding(LOST, f"{name} does not run {START_SECONDS:g} s after its creation")
            if phases.get(name) == "Failed":
                yield Finding(LOST, f"GPUJob {name} is Failed")

    def _stopped(self, at: float, item: _Item) -> Iterable[Finding]:
        if item.missing_since is None:
            item.missing_since = at
        elif at - item.missing_since > UNSEEN_SECONDS:
            yield Finding(LOST, f"{item.expected.name} ran, and does not run any more")
