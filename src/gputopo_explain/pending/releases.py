"""Finds the smallest set of pods whose end makes a pending pod fit on a node.

Of sets with equally many pods, the set with the pods of lower priority is better. Pods that have
ended or are being deleted count only after that, because they end without an action.

The search adds one pod after the other and keeps, for each number of freed GPUs, the best set. A
node has at most 64 GPUs, so this is exact and fast. Example: 3 GPUs are missing, and pods with 1,
2 and 4 GPUs have the priorities 0, 0 and 100. The best set is the pod with 4 GPUs, because the
other two pods together are two.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from gputopo.topology.model import GpuMask, indices_of, mask_of
from gputopo_cluster.topologies import GpuNode
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.machines import Machine, shortages
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_pod
from gputopo_scheduling.restrictions import AvoidingPod, barred_by
from gputopo_scheduling.sharing_state import sharing_state


@dataclass(frozen=True, slots=True)
class NodeUser:
    """A pod, or the processes of one, on a node.

    Attributes:
        view: the pod; None if its object does not exist, or was not read.
        gpus: how many GPUs become free when it ends.
        name: namespace and name.
        deleted: whether it is known that the pod was deleted and only its processes run.
    """

    uid: str
    name: str
    gpus: int
    view: PodView | None
    deleted: bool = False

    @property
    def stopping(self) -> bool:
        """Whether the pod ends without an action."""
        view = self.view
        return self.deleted or (view is not None and (not view.live or view.deleting))

    @property
    def priority(self) -> int:
        """Priority of the pod; 0 if it is unknown."""
        return self.view.priority if self.view else 0


Cost = tuple[int, tuple[int, ...], int]
"""Number of pods, their priorities from the highest, and the number of pods that end anyway.

Adding the same pod to two sets never changes which of them has the lower cost.
"""

Chosen = tuple[NodeUser, ...]


def cost(users: Iterable[NodeUser]) -> Cost:
    """Return the cost of ending these pods; lower is better."""
    chosen = [*users]
    acted = sorted((each.priority for each in chosen if not each.stopping), reverse=True)
    return len(acted), tuple(acted), len(chosen) - len(acted)


def smallest_set(users: Iterable[Chosen], missing: int) -> Chosen | None:
    """Return the users of lowest cost that together free ``missing`` GPUs, or None.

    Users of one item free its GPUs only together: they share a GPU. The last of them has it.
    """
    best: dict[int, Chosen] = {0: ()}
    for together in users:
        gpus = sum(user.gpus for user in together)
        for freed, chosen in [*best.items()]:
            total, candidate = min(missing, freed + gpus), (*chosen, *together)
            if total not in best or cost(candidate) < cost(best[total]):
                best[total] = candidate
    return best.get(missing) if missing > 0 else ()


class HeldGpus(NamedTuple):
    """GPUs of a node that one pod has, or will have by a claim.

    Attributes:
        unknown: number of further GPUs that the agent has not identified yet.
        name: namespace and name of the pod.
        deleted: whether the agent reports that only processes of the pod run.
    """

    gpus: GpuMask
    unknown: int
    name: str
    deleted: bool = False


def held_gpus(usage: NodeUsage) -> Mapping[str, HeldGpus]:
    """Return the GPUs of each pod on a node by UID; the UID is empty if the agent knows no pod."""
    held = {each.uid: HeldGpus(each.gpus, each.unknown, str(each.key)) for each in usage.occupants}
    for user in usage.unlisted:
        own = mask_of(each.gpu for each in usage.unlisted if each.uid == user.uid)
        held[user.uid or ""] = HeldGpus(own, 0, user.pod, user.deleted)
    return held


class NodeUsers:
    """The users of GPUs by node; pods without GPUs are users only where CPU or memory lacks."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        machines: Mapping[str, Machine],
        documents: Mapping[str, Document],
        pod: PodView,
        has_all_pods: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Keep what is known of the cluster.

        Args:
            snapshot: the GPUs and their users.
            machines: the Nodes; empty if they could not be read.
            documents: the pods by UID, also those without GPUs.
            pod: the pending pod. The pods that it must avoid have also the GPUs beside them.
            has_all_pods: returns whether all pods of a namespace were read.
        """
        self._has_all_pods = has_all_pods
        self._pending = pod
        self._pod = AvoidingPod.of(pod)
        self._snapshot = snapshot
        self._machines = machines
        self._documents = documents
        self._views = snapshot.pods

    def find_set(
        self,
        node: str,
        size: int,
        needed: Mapping[str, int],
        may_end: Callable[[NodeUser], bool],
    ) -> Chosen | None:
        """Return the best set of users of a node, or None if no set makes the pod fit.

        The node must not have a permanent misfit for the pod.

        Args:
            node: name of the node.
            size: number of GPUs that the pod requests.
            needed: the other resources that the pod requests, for kube-scheduler's filters.
            may_end: returns whether a user may be in the set.
        """
        usage, known = self._snapshot.usages.get(node), self._snapshot.nodes.get(node)
        if not isinstance(usage, NodeUsage) or not isinstance(known, GpuNode) or usage.not_ready:
            return None
        chosen = self._one_of_a_shared_gpu(known, usage, may_end)
        if chosen is None:
            chosen = self._of_whole_gpus(usage, size, may_end)
        if chosen is None or node not in self._machines:
            return chosen
        return self._with_amounts(self._machines[node], needed, chosen, may_end)

    def _of_whole_gpus(
        self, usage: NodeUsage, size: int, may_end: Callable[[NodeUser], bool]
    ) -> Chosen | None:
        """Return the best set of users after whose end the node has ``size`` idle GPUs."""
        barred: dict[str, int] = {}
        for each, gpus in barred_by(usage.topology, usage.occupants, self._pod):
            barred[each.uid] = gpus
        users = [each for each in self._users(usage, barred) if all(map(may_end, each))]
        usable = usage.free & ~reduce(or_, barred.values(), 0)
        missing = size + usage.unknown - usable.bit_count()
        return smallest_set(users, missing)

    def _one_of_a_shared_gpu(
        self, node: GpuNode, usage: NodeUsage, may_end: Callable[[NodeUser], bool]
    ) -> Chosen | None:
        """Return the pod of a shared GPU after whose end the pending pod may share a GPU.

        Return no pod if it may share one now, and None if no single pod helps.
        """
        if not self._pending.shares:
            return None
        if self._may_share(usage):
            return ()
        users = [
            NodeUser(each.uid, str(each.key), 0, self._views.get(each.uid))
            for each in usage.occupants
            if each.shares
        ]
        for user in sorted(filter(may_end, users), key=lambda user: cost((user,))):
            if self._may_share(self._snapshot.usage_without(node, user.uid)):
                return (user,)
        return None

    def _may_share(self, usage: NodeUsage) -> bool:
        """Return whether a node offers a GPU to the pending pod, which requests a share."""
        state = sharing_state(usage, self._pending, self._snapshot.sharing)
        return state.usable(state.free).bit_count() > state.unknown

    def _users(self, usage: NodeUsage, barred: Mapping[str, int]) -> Iterator[Chosen]:
        """Yield the users of GPUs that would become free, also those without a pod object.

        Each item has one pod, or all pods that share a GPU. ``barred`` are the GPUs that a user
        keeps from the pending pod.
        """
        held = {
            uid: each._replace(gpus=GpuMask(each.gpus & usage.used | barred.get(uid, 0)))
            for uid, each in held_gpus(usage).items()
        }
        for uid, each in held.items():
            others = 0
            for other, theirs in held.items():
                others |= 0 if other == uid else theirs.gpus
            freed = GpuMask(each.gpus & usage.healthy & ~others)
            count = freed.bit_count() + each.unknown
            if uid and count:
                yield (self._user(uid, each, count),)
        for gpu in indices_of(GpuMask(usage.in_shares & usage.healthy)):
            together = sorted(uid for uid in held if held[uid].gpus & mask_of([gpu]))
            if len(together) > 1 and all(together):
                yield tuple(
                    self._user(uid, held[uid], int(uid == together[-1])) for uid in together
                )

    def _user(self, uid: str, held: HeldGpus, gpus: int) -> NodeUser:
        view, namespace = self._views.get(uid), held.name.partition("/")[0]
        exists = view is not None or uid in self._documents or not self._has_all_pods(namespace)
        return NodeUser(uid, held.name, gpus, view, held.deleted or not exists)

    def _with_amounts(
        self,
        machine: Machine,
        needed: Mapping[str, int],
        chosen: Chosen,
        may_end: Callable[[NodeUser], bool],
    ) -> Chosen | None:
        """Add pods until CPU and memory suffice too: pods of low priority first, then large ones.

        Then leave out each pod that is not needed. So the set is minimal, but there may be a
        smaller one.
        """
        found = [*chosen]
        spare = [user for user in self._by_amount(machine, needed, chosen) if may_end(user)]
        while _lacks(machine, needed, found):
            if not spare:
                return None
            found.append(spare.pop(0))
        for user in [each for each in found if each not in chosen]:
            without = [each for each in found if each is not user]
            if not _lacks(machine, needed, without):
                found = without
        return tuple(found)

    def _by_amount(
        self, machine: Machine, needed: Mapping[str, int], chosen: Chosen
    ) -> Sequence[NodeUser]:
        """Return the pods with a part of the lacking resources, in the order of :func:`cost`."""
        short = [name for name in needed if machine.requested[name]]
        taken = {user.uid for user in chosen}
        users = [
            (NodeUser(uid, str(view.key), 0, view), sum(amounts[name] for name in short))
            for uid, amounts in machine.by_uid.items()
            if uid not in taken and (view := self._view(uid)) is not None
        ]
        users.sort(key=lambda each: (not each[0].stopping, each[0].priority, -each[1], each[0].uid))
        return [user for user, amount in users if amount]

    def _view(self, uid: str) -> PodView | None:
        with suppress(PodError, KeyError):
            return self._views.get(uid) or parse_pod(self._documents[uid])
        return None


def _lacks(machine: Machine, needed: Mapping[str, int], users: Iterable[NodeUser]) -> bool:
    ended = [user.uid for user in users]
    return next(shortages(needed, machine, ended), None) is not None
