"""The settings of the extender, from flags and environment; a flag overrides the environment."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.api.waiting import MAX_WAIT_SECONDS
from gputopo.placement.model import PolicyName
from gputopo.runtime.settings import Port, Seconds
from gputopo.sharing.policy import SharingProgramSettings
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS
from gputopo.utility.utility import UtilityWeights


def _checked_weights(text: str) -> str:
    return UtilityWeights.parse(text).text  # raises UtilityError, which is a ValueError


class ExtenderSettings(SharingProgramSettings):
    """All settings with their defaults. Port 0 selects a free port."""

    program: ClassVar = "gputopo-extender"
    purpose: ClassVar = "Scheduler extender that chooses nodes and exact GPUs."

    verbs_host: Annotated[str, Field(description="address of filter, prioritize and bind")] = (
        "127.0.0.1"
    )
    verbs_port: Annotated[Port, Field(description="port of filter, prioritize and bind")] = 8888
    probes_host: Annotated[
        str, Field(description="address of livez, readyz and metrics; empty for all")
    ] = ""
    probes_port: Annotated[Port, Field(description="port of livez, readyz and metrics")] = 8889
    namespace: Annotated[
        str, Field(min_length=1, description="namespace of the Leases with the claims on GPUs")
    ] = "gputopo-system"
    pod: Annotated[
        str,
        Field(description="name of this pod; without it no Lease is taken from a failing leader"),
    ] = ""
    scheduler_lease: Annotated[
        str, Field(min_length=1, description="Lease of the schedulers, in the same namespace")
    ] = "gputopo-scheduler"
    handover_after_seconds: Annotated[
        Seconds,
        Field(
            description="longest time that the leader's extender may be not ready, "
            "while this pod is ready, before its Lease is taken away"
        ),
    ] = 10.0
    lease_blocked_seconds: Annotated[
        int,
        Field(
            gt=0,
            description="time in which no scheduler may acquire a Lease that was taken away; "
            "above kube-scheduler's renewDeadline",
        ),
    ] = 7
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    default_policy: Annotated[PolicyName, Field(description="policy of pods without one")] = (
        PolicyName.PRESERVE
    )
    utility_weights: Annotated[
        str,
        AfterValidator(_checked_weights),
        Field(
            description="weights of communication, interference and fragmentation for the policy "
            "Utility, in whole percent"
        ),
    ] = INSTALLATION_WEIGHTS.text
    offer_one_above: Annotated[
        int,
        Field(
            ge=0,
            description="if more nodes fit a pod that prefers none of them, filter returns "
            "one of the best; 0 disables this",
        ),
    ] = 100
    nominate_above: Annotated[
        int,
        Field(
            ge=0,
            description="if more pods than this wait for their first try by kube-scheduler, "
            "nominate nodes for the pods behind them; 0 disables this",
        ),
    ] = 0
    scheduler_name: Annotated[
        str, Field(min_length=1, description="schedulerName of the pods that get nominations")
    ] = SCHEDULER_NAME
    max_wait_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_WAIT_SECONDS,
            description="how long a pod waits at most for a better placement, if it does not say; "
            "0 places such pods at once",
        ),
    ] = 600
    api_timeout_seconds: Annotated[
        Seconds,
        Field(
            description="longest wait for one response of the API server; "
            "bind needs two or more, within kube-scheduler's httpTimeout"
        ),
    ] = 1.5
    decision_timeout_seconds: Annotated[
        Seconds,
        Field(
            description="longest wait for tables that are being built; "
            "below kube-scheduler's httpTimeout"
        ),
    ] = 3.0
    relist_after_silence_seconds: Annotated[
        Seconds, Field(description="after this time without events a watch is replaced by a list")
    ] = 60.0
    relist_every_seconds: Annotated[
        Seconds, Field(description="time between full lists, also with events in the watch")
    ] = 600.0
    stale_after_seconds: Annotated[
        Seconds, Field(description="all verbs return 503 after this time without a list or event")
    ] = 180.0

    @property
    def weights(self) -> UtilityWeights:
        """The weights of the policy Utility."""
        return UtilityWeights.parse(self.utility_weights)
