"""Searches the pods that would have to end so that one pending pod fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gputopo.runtime.messages import quoted
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.objects import ClusterObjects, LiveKind
from gputopo_explain.pending.ends import PodEnds, owner_text
from gputopo_explain.pending.model import EndKind, PodToEnd, PreemptionOutlook, Release
from gputopo_explain.pending.reasons import NodeReasons, PodNeeds
from gputopo_explain.pending.releases import Chosen, NodeUser, NodeUsers, cost
from gputopo_kube.pods import PodView

_MOST_RELEASES = 3
_COUNTED_APART = "kube-scheduler counts GPUs and shares separately, so it ends no pods for the pod"


@dataclass(frozen=True, slots=True)
class _OnNode:
    node: str
    chosen: Chosen


class ReleaseSearch:
    """Searches the pods that would have to end for one pending pod."""

    def __init__(
        self, view: PodView, needs: PodNeeds, reasons: NodeReasons, objects: ClusterObjects
    ) -> None:
        """Consider the nodes that other pods keep the pod from."""
        self._view = view
        self._needs = needs
        self._nodes = [node for node in reasons.obstacles if not reasons.is_permanent(node)]
        self._objects = objects
        self._documents = {str(pod["metadata"].get("uid")): pod for pod in objects[LiveKind.PODS]}
        self._users = NodeUsers(
            objects.snapshot, objects.machines, self._documents, view, objects.has_all_pods
        )
        self._ends = PodEnds(objects)

    def releases(self) -> Sequence[Release]:
        """Return the best nodes, and the pods that would have to end there."""
        return [self._release(each) for each in self._best(lambda _: True, _MOST_RELEASES)]

    def preemption(self) -> PreemptionOutlook:
        """Return whether ending pods of lower priority makes the pod fit."""
        if not self._view.preempts:
            return PreemptionOutlook(False, "spec.preemptionPolicy of the pod is Never")
        if self._view.shares:
            return PreemptionOutlook(False, _COUNTED_APART)
        named = self._needs.spec.get("priorityClassName")
        if named and self._needs.spec.get("priority") is None:
            reason = (
                f"the priority of the pod is unknown: no PriorityClass {quoted(named)} was read"
            )
            return PreemptionOutlook(None, reason)
        own = self._view.priority
        found = self._best(
            lambda user: user.stopping or user.priority < own, 1, self._without_shares
        )
        if not found:
            reason = f"no node fits even without all pods of a priority below {own}"
            if not all(map(self._without_shares, self._nodes)):
                reason += f"; on nodes with shared GPUs, {_COUNTED_APART}"
            return PreemptionOutlook(False, reason)
        release = self._release(found[0])
        if all(pod.stopping for pod in release.pods):
            return PreemptionOutlook(False, "these pods are being deleted already")
        reason = (
            f"kube-scheduler may end pods of a priority below {own}, "
            "if their PodDisruptionBudgets permit it"
        )
        return PreemptionOutlook(True, reason, release)

    def _without_shares(self, node: str) -> bool:
        """Return whether kube-scheduler's count of free GPUs is right for a node."""
        usage = self._objects.snapshot.usages.get(node)
        return isinstance(usage, NodeUsage) and not usage.shares

    def _best(
        self,
        may_end: Callable[[NodeUser], bool],
        most: int,
        on: Callable[[str], bool] = lambda _: True,
    ) -> list[_OnNode]:
        """Return the nodes with the sets of lowest cost, of those for which ``on`` is true."""
        size = self._needs.request.size
        # kubelet offers fewer GPUs while processes of a deleted pod run, so its count of GPUs does
        # not show how many there are when other pods have ended.
        amounts = self._needs.beside_gpus
        sets = [
            _OnNode(node, chosen)
            for node in filter(on, self._nodes)
            if (chosen := self._users.find_set(node, size, amounts, may_end))
        ]
        sets.sort(key=lambda each: (cost(each.chosen), each.node))
        return sets[:most]

    def _release(self, each: _OnNode) -> Release:
        pods = [self._pod_to_end(user) for user in each.chosen]
        deadlines = [_latest(pod, {EndKind.DEADLINE}) for pod in pods]
        expected = [_latest(pod, {*EndKind}) for pod in pods]
        return Release(each.node, pods, _longest(deadlines), _longest(expected))

    def _pod_to_end(self, user: NodeUser) -> PodToEnd:
        pod = self._documents.get(user.uid)
        return PodToEnd(
            user.name,
            user.uid,
            user.gpus,
            user.view.priority if user.view else None,
            owner_text(pod) if pod else None,
            user.stopping,
            self._ends.of_pod(pod) if pod else (),
        )


def _latest(pod: PodToEnd, kinds: set[EndKind]) -> int | None:
    """Return when the pod has ended by the first of its known ends of these kinds."""
    return next((max(0, end.seconds) for end in pod.ends if end.kind in kinds), None)


def _longest(seconds: Sequence[int | None]) -> int | None:
    known = [each for each in seconds if each is not None]
    return max(known) if known and len(known) == len(seconds) else None
