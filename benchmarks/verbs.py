"""The extender's verbs on a ledger, as its server creates them, and verbs that do nothing."""

from typing import Any

from prometheus_client import CollectorRegistry

from benchmarks.fleet import filled_ledger
from gputopo.api.names import RESOURCE
from gputopo.placement.model import PolicyName
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS
from gputopo_extender.fencing.binding_writer import BindOutcome, BindResult
from gputopo_extender.fencing.pod_api import PodApi
from gputopo_extender.nomination.nominations import Nominations
from gputopo_extender.protocol import ExtenderArgs, ExtenderBindingArgs, filter_result
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.comparisons import NodeComparisons
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.handlers import Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_extender.verbs.postponement.assembly import assemble
from gputopo_scheduling.node_fits import evaluate_states


class NoBinder(Binder):
    """Bind is not measured: its time would be that of the API server."""

    def __init__(self) -> None:
        self.comparisons = NodeComparisons()

    async def bind(self, args: ExtenderBindingArgs) -> BindResult:
        """Bind nothing."""
        return BindResult(BindOutcome.FAILED, f"{args.pod_name}: no API server")


class NoPodApi(PodApi):
    """No pod of a benchmark waits, so there are no writes."""

    def __init__(self) -> None:
        pass


class NothingToDecide(Verbs):
    """Has the same request and response of filter: only the server and the parsing are measured."""

    async def filter(self, args: ExtenderArgs) -> dict[str, Any]:
        """Return the first node."""
        return filter_result(args, args.candidates()[:1], failed={}, unresolvable={})


def verbs_on(ledger: Ledger, metrics: Metrics, kind: type[Verbs] = Verbs) -> Verbs:
    """Return the verbs on a ledger."""
    cache = EvaluationCache(evaluate_states, metrics.build_seconds, timeout_seconds=60.0)
    requests = PodRequests(
        ledger,
        resource=RESOURCE,
        default_policy=PolicyName.PRESERVE,
        weights=INSTALLATION_WEIGHTS,
    )
    postponement = assemble(
        ledger,
        cache,
        requests,
        NoPodApi(),
        CollectorRegistry(),
        default_seconds=0,
        leads=lambda: True,
    )
    return kind(
        ledger,
        cache,
        NoBinder(),
        postponement.postponer,
        metrics,
        requests,
        Nominations(ClusterQueue(), lambda _: None),
        offer_one_above=ExtenderSettings.model_fields["offer_one_above"].default,
    )


def fleet_of(nodes: int) -> tuple[Ledger, Metrics]:
    """Return a ledger of this many nodes with usage already derived, and its metrics."""
    ledger = filled_ledger(nodes)
    ledger.states()
    return ledger, Metrics(ledger, [])
