"""Find and parse the configuration of kube-scheduler."""

import re
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.errors import GputopoError
from gputopo.runtime.messages import first_error
from gputopo_cli.cluster.doctor import installed
from gputopo_cli.cluster.doctor.model import CheckedCluster, NotCheckedError, ObjectKind
from gputopo_kube.document import Document

CONTAINER: Final = "kube-scheduler"  # in the scheduler's Deployment

_UNITS_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class ManagedResource(_Part):
    """One entry of ``extenders[].managedResources[]``."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderEntry(_Part):
    """One entry of ``extenders[]``. Missing fields have kube-scheduler's defaults."""

    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    http_timeout: str = "5s"
    node_cache_capable: bool = False
    ignorable: bool = False
    managed_resources: list[ManagedResource] = []


class ProfileEntry(_Part):
    """One entry of ``profiles[]``."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None


class SchedulerConfiguration(_Part):
    """The fields of ``KubeSchedulerConfiguration`` that ``doctor`` checks."""

    percentage_of_nodes_to_score: int = 0  # 0: kube-scheduler derives it from the cluster size
    profiles: list[ProfileEntry] = []
    extenders: list[ExtenderEntry] = []


class ConfigurationError(GputopoError):
    """The configuration is missing or invalid."""


@dataclass(frozen=True, slots=True)
class ConfigurationSource:
    """The ConfigMap, and the key in it, that has the configuration of a scheduler Deployment."""

    deployment: Document
    config_map: str
    key: str

    @property
    def namespace(self) -> str:
        """Namespace of the Deployment and of the ConfigMap."""
        namespace: str = self.deployment["metadata"]["namespace"]
        return namespace

    def find_config_map(self, snapshot: CheckedCluster) -> Document:
        """Return the ConfigMap.

        Raises:
            NotCheckedError: if ConfigMaps could not be read.
            ConfigurationError: if the ConfigMap does not exist.
        """
        for document in snapshot[ObjectKind.CONFIG_MAPS]:
            metadata = document["metadata"]
            if (metadata["namespace"], metadata["name"]) == (self.namespace, self.config_map):
                return document
        raise ConfigurationError("does not exist")


def find_configuration(snapshot: CheckedCluster) -> ConfigurationSource:
    """Return the source of the running scheduler's configuration.

    Raises:
        NotCheckedError: if no Deployment mounts a configuration.
    """
    for deployment in installed.find_parts(snapshot, ObjectKind.DEPLOYMENTS, "scheduler"):
        for container in installed.containers(deployment):
            if container["name"] == CONTAINER and (found := _find_mount(deployment, container)):
                return found
    raise NotCheckedError(f"no Deployment of gputopo runs {CONTAINER} with a ConfigMap")


def _find_mount(deployment: Document, container: Document) -> ConfigurationSource | None:
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
            return ConfigurationSource(deployment, volumes[mount["name"]], key)
    return None


def parse_configuration(config_map: Document, key: str) -> SchedulerConfiguration:
    """Parse the scheduler configuration under ``key`` of a ConfigMap.

    Raises:
        ConfigurationError: if the configuration is missing or invalid.
    """
    import yaml

    try:
        document = yaml.safe_load((config_map.get("data") or {}).get(key, ""))
    except RecursionError:
        raise ConfigurationError(f"{key}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{key}: is not YAML: {reason}") from None
    try:
        return SchedulerConfiguration.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(first_error(error, prefix=key)) from None


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration in Go's format; None if the text is not a duration.

    >>> parse_duration("1m30s"), parse_duration("500ms"), parse_duration("5")
    (90.0, 0.5, None)
    """
    if not text or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
