"""Keeps the pods that wait for a better placement, until they are bound or deleted.

filter adds pods. The state is in memory only: after a restart, filter adds the pods again when
kube-scheduler tries them, and the end of each wait follows from the pod itself.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from gputopo.api.names import POSTPONED_ANNOTATION
from gputopo.api.waiting import PostponedAnnotation, parse_postponed
from gputopo.placement.model import Match, PlacementRequest
from gputopo.postponement.offers import NodeOffers, WaitOrder
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import Misfit
from gputopo_scheduling.restrictions import AvoidingPod
from gputopo_scheduling.wait_record import ended
from gputopo_scheduling.waiting import PodWait, wait_order


@dataclass(frozen=True, slots=True)
class PostponedPod:
    """A pod whose placement filter has compared with the value that the pod waits for.

    Attributes:
        avoiding: the pods that it avoids; without its UID.
        wait: the newest decision.
        waits: whether filter has postponed the pod.
        passed: whether filter has returned nodes for the pod, so its bind may be in flight. It gets
            no offers then: its own reservation is a change of its node.
        record: what the wait was when it began; None if filter has never postponed the pod.
        is_due: whether kube-scheduler was asked to try the pod because its longest wait is over.
    """

    uid: str
    key: ObjectKey
    order: WaitOrder
    request: PlacementRequest
    avoiding: AvoidingPod
    wait: PodWait
    waits: bool
    passed: bool
    record: PostponedAnnotation | None = None
    is_due: bool = False

    @property
    def group(self) -> Hashable:
        """Pods of one group have the same placements on each node."""
        return self.request, self.avoiding

    @classmethod
    def of(
        cls,
        pod: PodView,
        request: PlacementRequest,
        wait: PodWait,
        *,
        waits: bool,
        record: PostponedAnnotation | None = None,
    ) -> Self:
        """Return a pod as filter has decided about it."""
        avoiding = replace(AvoidingPod.of(pod), uid="")
        order = wait_order(pod)
        return cls(pod.uid, pod.key, order, request, avoiding, wait, waits, not waits, record)


class PostponedPods:
    """The postponed pods of one extender, and the offers of nodes to them.

    Attributes:
        offers: the nodes that are offered to pods.
        outdated: nodes whose offers must be decided again, although their state is unchanged.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        """Keep each pod until ``ledger`` shows it as bound, ended, deleted or gated.

        ``clock`` returns Unix time.
        """
        self._ledger = ledger
        self._clock = clock
        self._pods: dict[str, PostponedPod] = {}
        self.offers = NodeOffers()
        self.outdated: set[str] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> PostponedPod | None:
        """Return a pod, or None if it is unknown."""
        return self._pods.get(uid)

    def is_postponed(self, uid: str) -> bool:
        """Return whether the newest filter has postponed the pod, and its longest wait goes on.

        kube-scheduler does not call filter for a pod that its own rules permit on no node, so the
        mark can be old: after the longest wait it must not prevent a preemption.
        """
        known = self._pods.get(uid)
        return known is not None and known.waits and not known.wait.is_over(self._clock())

    def waiting(self) -> int:
        """Return how many pods wait now."""
        return sum(each.waits for each in self._pods.values())

    def put(self, pod: PostponedPod) -> None:
        """Add or replace a pod."""
        self._pods[pod.uid] = pod

    def fits_nowhere(self, uid: str) -> None:
        """Record that the pod would not be placed now, even if it did not wait.

        Nodes are still offered to it: it may fit when something ends.
        """
        if (known := self._pods.get(uid)) is not None:
            self._pods[uid] = replace(known, waits=False, passed=False)

    def renew(self, request_of: Callable[[PodView], PlacementRequest | Misfit]) -> None:
        """Make the requests of all pods again, because facts about workloads have changed."""
        for known in [*self._pods.values()]:
            pod = self._ledger.pods.get(known.uid)
            request = request_of(pod) if pod is not None else known.request
            if isinstance(request, PlacementRequest):
                self._pods[known.uid] = replace(known, request=request)

    def in_order(self) -> list[PostponedPod]:
        """Return the pods in the order in which nodes are offered to them."""
        return sorted(self._pods.values(), key=lambda pod: pod.order)

    def clear(self) -> None:
        """Remove all pods: the kube-scheduler of this extender does not lead."""
        self._pods.clear()
        self.outdated.clear()
        self.offers = NodeOffers()

    def prune(self) -> list[PostponedPod]:
        """Remove the pods that are bound, deleted or gated, and return them.

        The nodes that were offered to them are offered to the next pods.
        """
        gone = [each for each in self._pods.values() if not self._is_pending(each.uid)]
        for each in gone:
            del self._pods[each.uid]
            self.outdated.update(self.offers.forget(each.uid))
        return gone

    def due(self, now: float) -> list[PostponedPod]:
        """Return the pods whose longest wait has ended since the last call.

        A pod that fitted nowhere is one of them: a placement below its value may be possible now.
        """
        found = [
            replace(each, is_due=True)
            for each in self._pods.values()
            if not each.passed and not each.is_due and each.wait.is_over(now)
        ]
        self._pods.update((each.uid, each) for each in found)
        return found

    def held(self, order: WaitOrder, nodes: Iterable[str], now: float) -> dict[str, ObjectKey]:
        """Return the nodes that are offered to pods before ``order``, with these pods."""
        if not self._pods:
            return {}
        pods = {node: self._pods.get(self.offers.offered_to(node, now) or "") for node in nodes}
        return {
            node: pod.key for node, pod in pods.items() if pod is not None and pod.order < order
        }

    def accepts(self, uid: str, match: Match) -> bool:
        """Return whether a placement has the value with which filter let the pod pass."""
        known = self._pods.get(uid)
        return known is None or known.wait.accepts_match(match)

    def with_end(self, decision: Decision, pod: PodView) -> Decision:
        """Return the decision with the end of the pod's wait in the annotations, if it waited."""
        known = self._pods.get(pod.uid)
        if known is None:
            return decision
        record = parse_postponed(pod.annotations, pod.uid) or known.record
        if record is None:
            return decision
        wait = known.wait
        permille = wait.permille(decision.match)
        text = ended(record, permille, self._clock(), expired=wait.is_expired).dump()
        return replace(decision, annotations={**decision.annotations, POSTPONED_ANNOTATION: text})

    def _is_pending(self, uid: str) -> bool:
        pod = self._ledger.pods.get(uid)
        return pod is not None and self._ledger.pods.is_waiting(uid) and not pod.gated
