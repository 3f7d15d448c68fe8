"""Read a pod and a topology from files, to explain a placement without a cluster."""

import json
from collections.abc import Mapping
from typing import Any, Final

from gputopo.catalogue import all_names
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import STANDARD_INPUT, read_text
from gputopo_cli.topology.load import load_topology
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_kube.document import Document

_POD_LISTS: Final = ("List", "PodList")
_TOPOLOGY_LISTS: Final = ("List", "GPUTopologyList")


def read_pod(path: str, name: str) -> Document:
    """Return the pod of a file that ``kubectl get pod -o json`` or ``-o yaml`` wrote.

    ``name`` selects a pod of a list; it may be empty if the file has one pod.

    Raises:
        InputError: if the file has no such pod.
    """
    document = _parse(read_text(path, "filename"), path)
    items = _items(document, _POD_LISTS)
    pods = [each for each in items if each.get("kind", "Pod") == "Pod" and _name(each)]
    found = [each for each in pods if name in {"", _name(each)}]
    if len(found) != 1:
        named = f" named {quoted(name)}" if name else ""
        raise InputError(f"filename: {quoted(path)} has {len(found)} pods{named}; one is needed")
    return found[0]


def read_node(argument: str, node: str) -> GpuNode | UnreadableTopology:
    """Return the GPUs of ``--topology``: of a GPUTopology object, or of any topology.

    A text of ``nvidia-smi topo -m`` and a name of the catalogue contain no health and no users:
    all GPUs count as healthy.
    """
    if argument not in all_names() and argument != STANDARD_INPUT:
        text = read_text(argument, "topology")
        items = _items(_parse(text, argument), _TOPOLOGY_LISTS) if "GPUTopology" in text else []
        objects = [each for each in items if each.get("kind") == "GPUTopology" and _name(each)]
        named = [each for each in objects if len(objects) == 1 or _name(each) == node]
        if named:
            return parse_gpu_node(named[0])
    topology = load_topology(argument).topology
    return GpuNode(node, 0, topology, topology.mask, ())


def _items(document: object, lists: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the object of a document, or the objects of a list."""
    if not isinstance(document, dict):
        return []
    found = document.get("items") if document.get("kind") in lists else [document]
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _parse(text: str, path: str) -> object:
    import yaml

    try:
        return json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InputError(f"filename: {quoted(path)} is neither JSON nor YAML") from None
