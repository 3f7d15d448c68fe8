"""The settings of the operator, from flags and environment variables; flags take precedence."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.queueing.model import QueueOrder, QueueRules
from gputopo.runtime.settings import Port, Seconds
from gputopo.sharing.policy import SharingProgramSettings


class OperatorSettings(SharingProgramSettings):
    """The settings and their defaults."""

    program: ClassVar = "gputopo-operator"
    purpose: ClassVar = "Runs GPUJobs as Jobs and reports their state."

    namespaces: Annotated[
        str, Field(description="namespaces to serve, separated by commas; empty serves all")
    ] = ""
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    scheduler_name: Annotated[
        str, Field(min_length=1, description="schedulerName of the pods of GPUJobs")
    ] = SCHEDULER_NAME
    queue_order: Annotated[
        Literal["", "FIFO", "SRTF", "LAS", "FTF"],
        Field(description="order in which GPUJobs start; if empty, all start at once"),
    ] = ""
    queue_max_skip_seconds: Annotated[
        Seconds, Field(description="wait after which GPUs are kept free for a GPUJob")
    ] = 3600.0
    workers: Annotated[
        int,
        Field(ge=1, le=64, description="GPUJobs that are reconciled at the same time"),
    ] = 4
    resync_seconds: Annotated[
        Seconds, Field(description="interval of the reads of all objects without an event")
    ] = 300.0
    profile_delay_seconds: Annotated[
        Seconds, Field(description="time to collect new samples before a GPUProfile is updated")
    ] = 10.0
    max_profiles_per_namespace: Annotated[
        int,
        Field(ge=0, description="GPUProfiles of a namespace above which the operator creates none"),
    ] = 1000
    sizing_mechanism: Annotated[
        Literal["marginal", "tune"],
        Field(description="rule that divides the CPUs and memory of a node among its pods"),
    ] = "marginal"
    sizing_round_seconds: Annotated[
        Seconds, Field(description="interval at which sized pods are sized again without an event")
    ] = 300.0
    sharing_judge_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="time for which measured speeds must show that pods should not share a "
            "GPU, before the last of them is moved; 0 if the installation shares no GPUs",
        ),
    ] = 0.0
    api_timeout_seconds: Annotated[
        Seconds, Field(description="longest wait for one response of the API server")
    ] = 30.0
    probes_host: Annotated[str, Field(description="address of both ports; empty for all")] = ""
    health_port: Annotated[Port, Field(description="port of /healthz")] = 8891
    metrics_port: Annotated[Port, Field(description="port of /metrics")] = 8892

    @property
    def queue_rules(self) -> QueueRules:
        """The rules of gputopo's queue, which the installation uses if ``queue_order`` is set."""
        return QueueRules(QueueOrder(self.queue_order), self.queue_max_skip_seconds)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces whose objects the operator serves; empty for all namespaces."""
        names = (name.strip() for name in self.namespaces.split(","))
        return tuple(name for name in names if name)
