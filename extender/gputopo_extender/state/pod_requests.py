"""Makes the placement requests of pods, and the states of nodes for which they are evaluated.

The policy Utility needs to know which jobs run beside a pod, and how much they slow each other
down. So its requests have surroundings, and its nodes are compared with the jobs that run there.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.topology.model import NodeTopology
from gputopo.utility.utility import UtilityWeights
from gputopo_cluster.usage import NodeState
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import AnyNodeState, Misfit, SurroundedState
from gputopo_scheduling.request import placement_request
from gputopo_scheduling.surroundings import with_surroundings


class PodRequests:
    """Makes requests with the settings of the installation and the facts of the ledger.

    Attributes:
        resource: name of the GPU resource.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        resource: str,
        default_policy: PolicyName,
        weights: UtilityWeights,
    ) -> None:
        """Make requests for ``resource``; ``weights`` are those of the policy Utility."""
        self._ledger = ledger
        self.resource = resource
        self._default_policy = default_policy
        self._weights = weights
        self._kinds: tuple[int, list[NodeTopology]] = (-1, [])

    def of(self, pod: PodView) -> PlacementRequest | Misfit:
        """Return the request of a pod with the facts that are known now, or why it has none."""
        request = placement_request(
            pod, resource=self.resource, default_policy=self._default_policy
        )
        if isinstance(request, Misfit) or request.policy is not PolicyName.UTILITY:
            return request  # others need no facts, which take time to collect
        facts = self._ledger.interference.facts
        return with_surroundings(request, pod, facts, self._nodes(), self._weights)

    def states(
        self, pod: PodView, request: PlacementRequest, nodes: Sequence[str]
    ) -> list[AnyNodeState]:
        """Return the states of nodes for a pod, as keys for the evaluation of its request."""
        states = self._ledger.states_for(pod, nodes)
        if request.surroundings is None:
            return [*states]
        running = self._ledger.interference.on_nodes(nodes, self._ledger.usages())
        return list(map(SurroundedState.of, states, running))

    def state_without(
        self, pod: PodView, request: PlacementRequest, node: str, uids: AbstractSet[str]
    ) -> AnyNodeState:
        """Return the state that a node would have for a pod without these others, as a key."""
        state = self._ledger.state_without(node, uids, pod)
        if request.surroundings is None:
            return state
        return SurroundedState.of(state, self._ledger.surroundings_without(node, uids))

    def _nodes(self) -> list[NodeTopology]:
        """Return a topology of each kind of node; it is derived again after each change."""
        if self._kinds[0] != self._ledger.changes():
            states = {*self._ledger.states().values()}
            kinds = {
                state.structure.fingerprint: state.structure
                for state in states
                if isinstance(state, NodeState)
            }
            self._kinds = (self._ledger.changes(), [*kinds.values()])
        return self._kinds[1]
