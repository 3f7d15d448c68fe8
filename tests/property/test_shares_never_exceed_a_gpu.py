"""Pods with whole GPUs and with shares come and end in any order: no GPU is given twice."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.shares import gpu_of, is_share, parse_sharing, usable_bytes
from gputopo.sharing.policy import Preference, SharingPolicy, Unknown
from gputopo.topology.model import GpuUuid
from gputopo_cluster.claims import Claim
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.sharing_state import sharing_state
from gputopo_scheduling.surroundings import parse_workload
from support.builders.objects import at_version, pod
from support.builders.requests import pod_view
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.sharing_facts import pairs
from support.builders.topologies import node
from support.extender.sharing import bound, decided, usage_of

NODES = {name: node(0, 1, 2, name=name) for name in ("n1", "n2")}
GPUS = {gpu.uuid: gpu for topology in NODES.values() for gpu in topology.gpus}
MODEL = next(iter(GPUS.values())).model
PODS = 36
KNOWN = [parse_workload(each) for each in pairs(model=MODEL)]


@dataclass
class World:
    """Two nodes, their pods, and the devices that each pod has.

    Attributes:
        held: the devices of each pod, by UID, until no process of the pod runs.
        views: the pods as the API server has them.
        claims: the claims of the other extender.
        ended: pods that have ended and whose end no agent has confirmed.
        most: most pods on a GPU.
    """

    chance: Random
    most: int
    policy: SharingPolicy
    ledger: Ledger = field(default_factory=Ledger)
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    views: dict[str, PodView] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    version: int = 10

    def __post_init__(self) -> None:
        self.ledger.interference.set_sharing_policy(self.policy)
        self.ledger.interference.replace(KNOWN)
        for name in NODES:
            self.report(name)

    def report(self, name: str) -> None:
        """Let an agent report the devices of all pods on its node that it has seen."""
        uuids = {gpu.uuid for gpu in NODES[name].gpus}
        using = [
            (device, uid)
            for uid, devices in self.held.items()
            for device in devices
            if gpu_of(device) in uuids and self.views[uid].node == name
        ]
        indices: dict[int, str] = {
            GPUS[gpu_of(device)].index: uid for device, uid in using if not is_share(device)
        }
        document = sharing_topology(
            name,
            NODES[name],
            most_pods=self.most,
            shares={device: uid for device, uid in using if is_share(device)},
            used_by=indices,
        )
        document["status"]["observedPodsVersion"] = str(self.version)
        self.ledger.put_topology(parse_gpu_node(document))

    def random_pod(self, number: int) -> PodView:
        """Return a whole-GPU pod or a sharing pod."""
        chance, self.version = self.chance, self.version + 1
        if chance.random() < 0.3:
            document = pod(f"p{number}", chance.choice((1, 1, 2)))
        else:
            document = sharing_pod(
                f"p{number}",
                chance.choice(("a", "b", "c", "d", "")),
                memory=chance.choice(("", "", "1Gi", "9Gi", "20Gi", "32Gi")),
                limit=chance.choice((None, None, 30, 300)),
            )
        return pod_view(at_version(document, self.version))

    def place(self, view: PodView) -> Decision | None:
        """Return the decision of bind on a random node that fits."""
        for name in self.chance.sample([*NODES], len(NODES)):
            if (decision := decided(self.ledger, view, name)) is not None:
                return decision
        return None

    def begin(self, view: PodView, decision: Decision) -> None:
        """Let this or another extender give the devices to the pod."""
        self.held[view.uid], self.views[view.uid] = decision.claim.gpus, view
        chance = self.chance.random()
        if chance < 0.3:
            self.claims.append(decision.claim)
            self.ledger.replace_claims(self.claims)
            if self.chance.random() < 0.5:
                self.ledger.put_pod(view)
            return
        self.ledger.put_pod(view)
        self.ledger.reservations.reserve(decision)
        if chance < 0.8:
            self.bind(view.uid, decision)

    def bind(self, uid: str, decision: Decision) -> None:
        """Show the bound pod by the watch."""
        self.version += 1
        view = replace(bound(self.views[uid], decision), version=self.version, phase="Running")
        self.views[uid] = view
        self.ledger.put_pod(view)

    def end(self, uid: str) -> None:
        """Let a bound pod end, in one of several ways, perhaps with a process left."""
        view, self.version = self.views[uid], self.version + 1
        last = replace(view, version=self.version)
        way = self.chance.choice(("stopped", "failed", "deleted"))
        if way == "stopped":
            self.ledger.put_pod(replace(last, phase="Succeeded", stopped=True))
            self.forget(uid)
        elif way == "failed":
            self.ledger.put_pod(replace(last, phase="Failed"))
            self.ended.add(uid)
        else:
            self.ledger.drop_pod(uid, last)
            self.ended.add(uid)

    def confirm(self) -> None:
        """Let the processes of all ended pods end, and the agents report it."""
        for uid in self.ended:
            self.forget(uid)
        self.ended.clear()
        for name in NODES:
            self.report(name)

    def forget(self, uid: str) -> None:
        """Remove a pod of which no process runs."""
        del self.held[uid], self.views[uid]

    @property
    def running(self) -> list[str]:
        """The bound pods that have not ended."""
        return [uid for uid, each in self.views.items() if each.node and uid not in self.ended]

    def check(self) -> None:
        """Check what no sequence of events may break."""
        by_gpu = defaultdict[GpuUuid, list[tuple[str, str]]](list)
        for uid, devices in self.held.items():
            for device in devices:
                by_gpu[gpu_of(device)].append((device, uid))
        for uuid, users in by_gpu.items():
            own = [device for device, _ in users]
            assert len(own) == len({*own}), users
            assert len(own) == 1 or all(map(is_share, own)), users
            assert all(int(each.partition("::")[2] or 0) < self.most for each in own), users
            size = GPUS[uuid].memory_bytes
            limits = [
                parse_sharing(self.views[uid].annotations)
                for device, uid in users
                if is_share(device)
            ]
            needed = sum(each.memory_on(size, self.most) for each in limits)
            assert needed <= usable_bytes(size), users
        for name in NODES:
            assert usage_of(self.ledger, name).shared == 0


def check_states(world: World, views: Iterable[PodView]) -> None:
    """Check that stored states equal computed ones, and do not depend on the order of events."""
    other = World(world.chance, world.most, world.policy)
    other.held, other.views, other.version = world.held, world.views, world.version
    for name in NODES:
        world.report(name)
        other.report(name)
    bound_views = [world.views[uid] for uid in world.running]
    for each in world.chance.sample(bound_views, len(bound_views)):
        other.ledger.put_pod(each)
    simple = not world.ended and not world.claims and not world.ledger.reservations.own()
    for view in views:
        if view.shares:
            states = world.ledger.states_for(view, [*NODES])
            again = other.ledger.states_for(view, [*NODES])
            for name, state, computed in zip(NODES, states, again, strict=True):
                assert isinstance(state, NodeState)
                assert isinstance(computed, NodeState)
                usage, known = usage_of(world.ledger, name), world.ledger.interference.sharing
                assert state.key == sharing_state(usage, view, known).key
                if simple:
                    assert state.key == computed.key


@given(seed=st.integers(0, 2**32 - 1))
def test_no_gpu_is_given_twice_and_states_are_repeatable(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - repeatable
    policy = SharingPolicy(
        unknown=chance.choice([*Unknown]),
        preference=chance.choice([*Preference]),
        max_slowdown_percent=chance.choice((None, 100)),
    )
    world = World(chance, chance.choice((1, 2, 4)), policy)
    placed = 0
    for number in range(PODS):
        view = world.random_pod(number)
        decision = world.place(view)
        if decision is not None:
            placed += 1
            world.begin(view, decision)
            world.check()
        while world.running and chance.random() < 0.4:
            world.end(chance.choice(world.running))
        if chance.random() < 0.1:
            for claim in world.claims:
                world.ledger.reservations.drop_claim(claim)
                if world.views[claim.uid].node is None:
                    world.forget(claim.uid)
            world.claims.clear()
        if chance.random() < 0.3:
            world.confirm()
        if chance.random() < 0.2:
            check_states(world, [world.random_pod(1000 + number) for _ in range(3)])
        world.check()
    assert placed >= len(GPUS) // 2
