"""What the operator can be told, from flags and environment; flags win."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.names import RESOURCE, SCHEDULER_NAME

ENVIRONMENT_PREFIX = "GPUTOPO_OPERATOR_"

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsError(ValueError):
    """A setting with a wrong value; the message names both."""


class Settings(BaseModel):
    """Every setting with its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespaces: Annotated[
        str, Field(description="namespaces to serve, separated by commas; empty serves all")
    ] = ""
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    scheduler_name: Annotated[
        str, Field(min_length=1, description="schedulerName of the pods that are made")
    ] = SCHEDULER_NAME
    workers: Annotated[
        int, Field(ge=1, le=64, description="GPUJobs that are reconciled at the same time")
    ] = 4
    resync_seconds: Annotated[
        Seconds, Field(description="every GPUJob is looked at again after so long, event or not")
    ] = 300.0
    api_timeout_seconds: Annotated[
        Seconds, Field(description="longest wait for one answer of the API server")
    ] = 30.0
    probes_host: Annotated[str, Field(description="address of healthz and metrics")] = "0.0.0.0"  # noqa: S104 - kubelet and Prometheus come from outside the Pod
    health_port: Annotated[Port, Field(description="port of healthz")] = 8891
    metrics_port: Annotated[Port, Field(description="port of metrics")] = 8892
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="least level logged")
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"], Field(description="one line of text or of JSON per message")
    ] = "text"

    @classmethod
    def load(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Return the settings of these flags and environment variables.

        Variables are looked up by the names of the settings, because Kubernetes sets
        others with the same prefix beside a Service called gputopo-operator.

        Raises:
            SettingsError: on a wrong value.
            SystemExit: on an unknown flag, as argparse does.
        """
        variables = {name: ENVIRONMENT_PREFIX + name.upper() for name in cls.model_fields}
        given = {
            name: environment[variable]
            for name, variable in variables.items()
            if variable in environment
        }
        try:
            return cls.model_validate({**given, **vars(_parser(cls).parse_args(arguments))})
        except ValidationError as error:
            detail = error.errors()[0]
            name = str(detail["loc"][0])
            flag = "--" + name.replace("_", "-")
            raise SettingsError(
                f"{flag} ({variables[name]}): {detail['input']!r}: {detail['msg']}"
            ) from None

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces to serve, none for all of the cluster."""
        names = (name.strip() for name in self.namespaces.split(","))
        return tuple(name for name in names if name)


def _parser(model: type[BaseModel]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gputopo-operator",
        description="Runs GPUJobs as Jobs and tells what became of them.",
        epilog=f"Each flag can be given as {ENVIRONMENT_PREFIX}<NAME> too; the flag wins.",
        allow_abbrev=False,
    )
    for name, field in model.model_fields.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{field.description} (default {field.default!r})",
        )
    return parser
