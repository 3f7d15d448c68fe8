"""The settings of the test, from flags and environment variables; flags take precedence."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.runtime.settings import ProgramSettings, Seconds


class InstallTestSettings(ProgramSettings):
    """The settings and their defaults."""

    program: ClassVar = "gputopo-installtest"
    purpose: ClassVar = "Tests an installation of the chart from a pod of the cluster."

    namespace: Annotated[str, Field(min_length=1, description="namespace of the release")]
    release: Annotated[str, Field(min_length=1, description="name of the Helm release")]
    scheduler_pods: Annotated[
        int, Field(ge=0, description="expected number of pods of the scheduler")
    ] = 2
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    scheduler_name: Annotated[
        str, Field(min_length=1, description="schedulerName of pods with GPUs")
    ] = SCHEDULER_NAME
    timeout_seconds: Annotated[Seconds, Field(description="longest wait for one response")] = 10.0
    output: Annotated[Literal["table", "json"], Field(description="form of the results")] = "table"
