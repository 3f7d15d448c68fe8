"""What the extender can be told, from flags and environment; flags win."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.enums import PolicyName
from gputopo.api.names import RESOURCE

ENVIRONMENT_PREFIX = "GPUTOPO_EXTENDER_"

# Kubernetes sets these in every container beside a Service called gputopo-extender.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?")

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsError(ValueError):
    """A setting that does not exist or has a wrong value; the message names both."""


class Settings(BaseModel):
    """Every setting with its default. Port 0 takes any free port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verbs_host: Annotated[str, Field(description="address of filter, prioritize and bind")] = (
        "127.0.0.1"
    )
    verbs_port: Annotated[Port, Field(description="port of filter, prioritize and bind")] = 8888
    probes_host: Annotated[str, Field(description="address of livez, readyz and metrics")] = (
        "0.0.0.0"  # noqa: S104 - kubelet and Prometheus come from outside the Pod
    )
    probes_port: Annotated[Port, Field(description="port of livez, readyz and metrics")] = 8889
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    default_policy: Annotated[PolicyName, Field(description="policy of pods that name none")] = (
        PolicyName.PRESERVE
    )
    api_timeout_seconds: Annotated[
        Seconds,
        Field(
            description="longest wait for one answer of the API server; "
            "bind may need two within kube-scheduler's httpTimeout"
        ),
    ] = 2.0
    relist_after_silence_seconds: Annotated[
        Seconds, Field(description="a watch without events for so long is listed again")
    ] = 60.0
    stale_after_seconds: Annotated[
        Seconds, Field(description="refuse all verbs when a watch was silent for so long")
    ] = 180.0
    settle_after_seconds: Annotated[
        Seconds,
        Field(
            description="an unanswered Binding is dead after this; "
            "above the API server's --request-timeout"
        ),
    ] = 75.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="least level logged")
    ] = "info"

    @classmethod
    def load(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Return the settings of these flags and environment variables.

        Raises:
            SettingsError: on an unknown variable or a wrong value.
            SystemExit: on an unknown flag, as argparse does.
        """
        given = {**_from_environment(environment), **_from_flags(arguments, cls)}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(_message(error)) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    names = {
        name.removeprefix(ENVIRONMENT_PREFIX): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    return {
        name.lower(): value for name, value in names.items() if not _SERVICE_LINK.fullmatch(name)
    }


def _from_flags(arguments: Sequence[str], model: type[BaseModel]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        prog="gputopo-extender",
        description="Scheduler extender that chooses nodes and exact GPUs.",
        epilog=f"Each flag can be given as {ENVIRONMENT_PREFIX}<NAME> too; the flag wins.",
        allow_abbrev=False,
    )
    for name, field in model.model_fields.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{field.description} (default {field.default})",
        )
    return vars(parser.parse_args(arguments))


def _message(error: ValidationError) -> str:
    detail = error.errors()[0]
    name = str(detail["loc"][0])
    flag = "--" + name.replace("_", "-")
    if detail["type"] == "extra_forbidden":
        return f"{ENVIRONMENT_PREFIX}{name.upper()}: there is no such setting"
    return f"{flag} ({ENVIRONMENT_PREFIX}{name.upper()}): {detail['input']!r}: {detail['msg']}"
