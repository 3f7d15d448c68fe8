"""Reads what the cluster has of a version."""

from collections.abc import Iterator
from typing import Any

import yaml

from gputopo.api.names import RESOURCE
from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl
from upgradetest.definitions import differences, undefined_fields
from upgradetest.previous import Version


def wrong_definitions(kubectl: Kubectl, version: Version) -> Iterator[str]:
    """Yield where the CRDs of the cluster are not those of the version."""
    for path in version.definitions:
        wanted: dict[str, Any] = yaml.safe_load(path.read_text())
        name = wanted["metadata"]["name"]
        found = kubectl.get("customresourcedefinition", name)
        for problem in differences(wanted["spec"], found["spec"], "spec"):
            yield f"CRD {name}: {problem}"
        for field in undefined_fields(wanted, found):
            yield f"CRD {name}: the field {field} is of another version"


def agents_have_argument(kubectl: Kubectl, argument: str) -> bool:
    """Return whether the DaemonSet of the agents has an argument."""
    daemon_set = kubectl.get("daemonset", "gputopo-deviceplugin", NAMESPACE)
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    return argument in container["args"]


def all_offered(kubectl: Kubectl) -> bool:
    """Return whether each node has a topology, and kubelet offers all of its GPUs."""
    topologies = {
        each["metadata"]["name"]: len(each["spec"]["gpus"])
        for each in kubectl.list("gputopologies")
    }
    offered = {
        node["metadata"]["name"]: int(node["status"].get("allocatable", {}).get(RESOURCE, 0))
        for node in kubectl.list("nodes")
    }
    return bool(offered) and topologies == offered
