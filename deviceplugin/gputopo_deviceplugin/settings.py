"""What the node agent can be told, from flags and environment; flags win."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.api.names import RESOURCE

ENVIRONMENT_PREFIX = "GPUTOPO_DEVICEPLUGIN_"

# Kubernetes sets these in every container beside a Service called gputopo-deviceplugin.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?")

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsError(ValueError):
    """A setting that does not exist or has a wrong value; the message names both."""


class Settings(BaseModel):
    """Every setting with its default; ``node`` alone has none. Port 0 takes any free port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: Annotated[str, Field(min_length=1, description="name of this node")]
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    competing_resources: Annotated[
        str,
        Field(description="resources of other plugins for the same GPUs, with commas between"),
    ] = "nvidia.com/gpu"
    library_dir: Annotated[Path, Field(description="folder of the driver's libnvidia-ml.so.1")] = (
        Path("/usr/lib/x86_64-linux-gnu")
    )
    device_dir: Annotated[
        Path,
        Field(description="the host's folder of nvidia0, nvidiactl, ..., as containers get it"),
    ] = Path("/dev")
    device_mount: Annotated[
        Path | None,
        Field(description="where this container sees device_dir; the same path when left out"),
    ] = None
    system_dir: Annotated[Path, Field(description="where sysfs is mounted")] = Path("/sys")
    plugin_dir: Annotated[Path, Field(description="kubelet's folder of device-plugin sockets")] = (
        Path("/var/lib/kubelet/device-plugins")
    )
    pod_resources_socket: Annotated[Path, Field(description="kubelet's pod-resources socket")] = (
        Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    )
    probes_host: Annotated[str, Field(description="address of livez, readyz and metrics")] = (
        "0.0.0.0"  # noqa: S104 - kubelet and Prometheus come from outside the Pod
    )
    probes_port: Annotated[
        int, Field(ge=0, le=65535, description="port of livez, readyz and metrics")
    ] = 8890
    health_seconds: Annotated[Seconds, Field(description="pause between two readings of NVML")] = (
        5.0
    )
    retry_seconds: Annotated[
        Seconds, Field(description="pause before NVML is tried again on a node without it")
    ] = 30.0
    xid_quiet_seconds: Annotated[
        Seconds,
        Field(description="a GPU is healthy again so long after its last critical XID"),
    ] = 300.0
    observe_seconds: Annotated[
        Seconds, Field(description="pause between two looks at kubelet's books")
    ] = 5.0
    resync_seconds: Annotated[
        Seconds, Field(description="pause between two looks at the Node and the GPUTopology")
    ] = 30.0
    api_timeout_seconds: Annotated[
        Seconds, Field(description="longest wait for the API server outside of admission")
    ] = 10.0
    admission_timeout_seconds: Annotated[
        Seconds,
        Field(description="longest wait for the API server while kubelet waits for an answer"),
    ] = 1.5
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="least level logged")
    ] = "info"

    @property
    def competitors(self) -> frozenset[str]:
        """Resources whose presence on the node forbids to serve."""
        names = {name.strip() for name in self.competing_resources.split(",")}
        return frozenset(names - {"", self.resource})

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
        prog="gputopo-deviceplugin",
        description="Publishes this node's GPU topology and serves its GPUs to kubelet.",
        epilog=f"Each flag can be given as {ENVIRONMENT_PREFIX}<NAME> too; the flag wins.",
        allow_abbrev=False,
    )
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"default {field.default}"
        parser.add_argument(
            "--" + name.replace("_", "-"),
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{field.description} ({default})",
        )
    return vars(parser.parse_args(arguments))


def _message(error: ValidationError) -> str:
    detail = error.errors()[0]
    name = str(detail["loc"][0])
    variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
    if detail["type"] == "extra_forbidden":
        return f"{variable}: there is no such setting"
    flag = "--" + name.replace("_", "-")
    if detail["type"] == "missing":
        return f"{flag} ({variable}): required"
    return f"{flag} ({variable}): {detail['input']!r}: {detail['msg']}"
