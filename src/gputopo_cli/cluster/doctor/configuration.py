"""The configuration that kube-scheduler was given, as far as the checks read it."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.errors import GputopoError
from gputopo.runtime.messages import first_error
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import Kind, NotCheckedError, Snapshot
from gputopo_kube.document import Document

CONTAINER: Final = "kube-scheduler"
"""Name of its container in the scheduler's Deployment."""

_UNITS_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class ManagedResource(_Part):
    """``extenders[].managedResources[]``."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(_Part):
    """``extenders[]``, with kube-scheduler's defaults."""

    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    http_timeout: str = "5s"
    node_cache_capable: bool = False
    ignorable: bool = False
    managed_resources: list[ManagedResource] = []


class Profile(_Part):
    """``profiles[]``."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None


class Configuration(_Part):
    """``KubeSchedulerConfiguration``; percentage 0 leaves it to kube-scheduler."""

    percentage_of_nodes_to_score: int = 0
    profiles: list[Profile] = []
    extenders: list[Extender] = []


class ConfigurationError(GputopoError):
    """There is no configuration, or one that cannot be read; the message says which."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """Where the scheduler's Deployment says that its configuration is: a key of a ConfigMap."""

    deployment: Document
    config_map: str
    key: str

    @property
    def namespace(self) -> str:
        """That of both."""
        namespace: str = self.deployment["metadata"]["namespace"]
        return namespace

    def document(self, snapshot: Snapshot) -> Document:
        """Return the ConfigMap.

        Raises:
            NotCheckedError: where ConfigMaps may not be read.
            ConfigurationError: where there is none.
        """
        for document in snapshot[Kind.CONFIG_MAPS]:
            metadata = document["metadata"]
            if (metadata["namespace"], metadata["name"]) == (self.namespace, self.config_map):
                return document
        raise ConfigurationError("is not there")


def mounted(snapshot: Snapshot) -> Mounted:
    """Return where the configuration of the running scheduler lies.

    Raises:
        NotCheckedError: where no Deployment says so.
    """
    for deployment in installed.parts(snapshot, Kind.DEPLOYMENTS, "scheduler"):
        for container in installed.containers(deployment):
            if container["name"] == CONTAINER and (found := _mounted(deployment, container)):
                return found
    raise NotCheckedError(f"no Deployment of ours runs {CONTAINER} with a ConfigMap")


def _mounted(deployment: Document, container: Document) -> Mounted | None:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    path = next(
        (word.removeprefix("--config=") for word in words if word.startswith("--config=")), ""
    )
    folder, _, key = path.rpartition("/")
    volumes = {
        volume["name"]: volume["configMap"]["name"]
        for volume in deployment["spec"]["template"]["spec"].get("volumes") or ()
        if "configMap" in volume
    }
    for mount in container.get("volumeMounts") or ():
        if mount["mountPath"] == folder and mount["name"] in volumes:
            return Mounted(deployment, volumes[mount["name"]], key)
    return None


def configuration(config_map: Document, key: str) -> Configuration:
    """Return the configuration that a ConfigMap holds under a key.

    Raises:
        ConfigurationError: where it holds none or one that makes no sense.
    """
    import yaml

    try:
        document = yaml.safe_load((config_map.get("data") or {}).get(key, ""))
    except RecursionError:
        raise ConfigurationError(f"{key}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{key}: is no YAML: {reason}") from None
    try:
        return Configuration.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(first_error(error, prefix=key)) from None


def seconds(duration: str) -> float | None:
    """Return a duration as Go writes it, None where it is none.

    >>> seconds("1m30s"), seconds("500ms"), seconds("5")
    (90.0, 0.5, None)
    """
    if not duration or _PART.sub("", duration):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(duration))
