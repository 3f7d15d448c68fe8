"""All judgements of the soak, on what a watch, a poll and the nodes show. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from resizetest.soaking import sums
from resizetest.soaking.changes import FLOOR, Changes
from resizetest.soaking.kubelet import InEffect
from resizetest.soaking.losses import Losses
from resizetest.soaking.model import Expected, Finding, PodSize
from resizetest.soaking.shares import Shortages, guaranteed
from resizetest.soaking.sums import Sums


@dataclass(slots=True)
class Judge:
    """Follows all pods of the cluster, and the jobs and pods of the soak.

    Attributes:
        namespace: of the soak.
        nodes: CPUs and GPUs that each node of the soak offers.
        expected: what the soak has created, by name.
        pods: all pods of the cluster, by UID.
    """

    namespace: str
    nodes: dict[str, tuple[int, int]]
    expected: dict[str, Expected] = field(default_factory=dict)
    pods: dict[str, PodSize] = field(default_factory=dict)
    sums: Sums = field(default_factory=Sums)
    shortages: Shortages = field(default_factory=Shortages)
    losses: Losses = field(default_factory=Losses)
    changes: Changes = field(init=False)

    def __post_init__(self) -> None:
        self.changes = Changes(self.expected)

    @property
    def own(self) -> list[PodSize]:
        """The pods of the soak."""
        return [pod for pod in self.pods.values() if pod.namespace == self.namespace]

    def created(self, at: float, node: str, expected: Expected) -> None:
        """Note that the soak creates a job or pod."""
        self.expected[expected.name] = expected
        self.losses.created(at, expected)
        self.changes.cause(at, node, f"{expected.name} was created")

    def replace(self, at: float, pods: Iterable[PodSize]) -> Iterator[Finding]:
        """Judge the list of all pods."""
        found = {pod.uid: pod for pod in pods}
        for gone in [pod for uid, pod in self.pods.items() if uid not in found]:
            yield from self.see(at, gone, deleted=True)
        for pod in found.values():
            yield from self.see(at, pod)

    def see(self, at: float, pod: PodSize, *, deleted: bool = False) -> Iterator[Finding]:
        """Judge one event of a watch."""
        if deleted:
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
        yield from self.changes.see(at, pod, deleted=deleted)
        yield from self._of_sums(at)

    def look(self, at: float, phases: Mapping[str, str]) -> Iterator[Finding]:
        """Judge what depends on the time alone; ``phases`` are those of GPUJobs, by name."""
        for pod in self.own:
            yield from self.changes.see(at, pod)
        yield from self._of_sums(at)
        yield from self.losses.see(at, self.own, phases)
        for node, (allocatable, gpus) in self.nodes.items():
            pods = [pod for pod in self.pods.values() if pod.node == node]
            least = guaranteed(allocatable, gpus, pods, self.expected)
            yield from self.shortages.see(at, pods, least)

    def of_node(
        self, at: float, node: str, recorded: Mapping[str, int], effective: Iterable[InEffect]
    ) -> Iterator[Finding]:
        """Judge kubelet's checkpoint and the cgroups of a node."""
        groups = list(effective)
        allocatable, _ = self.nodes[node]
        held = sums.with_checkpoint(self.pods.values(), node, recorded)
        yield from self.sums.see(at, sums.ALLOCATED, node, held, allocatable)
        total = sum(group.request for group in groups)
        late = (
            f"; {self._name(group.pod_uid)} has {group.request}m, allocated {most}m"
            for group in groups
            if group.request > (most := recorded.get(group.pod_uid, group.request))
        )
        yield from self.sums.see(at, sums.IN_EFFECT, node, total, allocatable, "".join(late))
        for group in groups:
            pod = self.pods.get(group.pod_uid)
            expected = self.expected.get(pod.owner) if pod else None
            if pod and expected and group.limit is not None and group.limit < expected.floor:
                text = f"{pod.name}: {group.limit}m in its cgroup, floor {expected.floor}m"
                yield Finding(FLOOR, text)

    def _name(self, uid: str) -> str:
        return self.pods[uid].name if uid in self.pods else uid

    def _of_sums(self, at: float) -> Iterator[Finding]:
        for node, (allocatable, _) in self.nodes.items():
            for source, total in sums.totals(self.pods.values(), node).items():
                yield from self.sums.see(at, source, node, total, allocatable)
