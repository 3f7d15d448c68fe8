"""The extender's verbs on a fleet, put together as by its server, and a pair that does nothing."""

from typing import Any

from benchmarks.fleet import filled_ledger
from gputopo.api.names import RESOURCE
from gputopo.placement.model import PolicyName
from gputopo_extender.fencing.binding_writer import BindingWriter
from gputopo_extender.protocol import ExtenderArgs, filter_result
from gputopo_extender.settings import ExtenderSettings
from gputopo_extender.state.claim import Claim
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.bind import Binder
from gputopo_extender.verbs.evaluation import evaluate_states
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.handlers import Verbs
from gputopo_extender.verbs.metrics import Metrics
from gputopo_kube.errors import UnavailableError
from gputopo_kube.pods import PodView

_POLICY = PolicyName.PRESERVE


class NoApiServer:
    """Bind is not measured: the API server would be."""

    async def pod(self, namespace: str, name: str) -> PodView | None:
        """Know no pod."""
        raise UnavailableError(f"{namespace}/{name}: no API server")

    async def bind(self, decision: Decision) -> None:
        """Bind nothing."""
        raise UnavailableError(f"{decision.name}: no API server")

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        """Know no pod."""
        return await self.pod(namespace, name)

    async def load(self, pod: PodView) -> None:
        """Know no claims."""
        raise UnavailableError(f"{pod.name}: no API server")

    async def resolve_claim(self, claim: Claim) -> None:
        """Know no pod."""
        await self.pod(claim.namespace, claim.name)

    async def write(self) -> bool:
        """Claim nothing."""
        raise UnavailableError("no API server")


class NothingToDecide(Verbs):
    """Takes and gives the same bodies of filter: what is left is the server and the parsing."""

    async def filter(self, args: ExtenderArgs) -> dict[str, Any]:
        """Hand back the first node."""
        return filter_result(args, args.candidates()[:1], failed={}, unresolvable={})


def verbs_on(ledger: Ledger, metrics: Metrics, kind: type[Verbs] = Verbs) -> Verbs:
    """Return the verbs on a ledger."""
    answers = EvaluationCache(
        evaluate_states, patience_seconds=60.0, on_worked_out=metrics.worked_out
    )
    nobody = NoApiServer()
    binder = Binder(
        ledger,
        answers,
        nobody,
        nobody,
        BindingWriter(ledger, nobody, metrics.bound),
        resource=RESOURCE,
        default_policy=_POLICY,
    )
    return kind(
        ledger,
        answers,
        binder,
        metrics,
        resource=RESOURCE,
        default_policy=_POLICY,
        offer_one_above=ExtenderSettings.model_fields["offer_one_above"].default,
    )


def fleet_of(nodes: int) -> tuple[Ledger, Metrics]:
    """Return a ledger of this many nodes with books already derived, and its metrics."""
    ledger = filled_ledger(nodes)
    ledger.states()
    return ledger, Metrics(ledger, [])
