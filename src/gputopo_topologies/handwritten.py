"""Parse node topologies that are written by hand as JSON or YAML.

``docs/reference/topologies.md`` describes the format.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Annotated, Final
from uuid import NAMESPACE_DNS, uuid5

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.api.model import Memory
from gputopo.api.quantity import parse_bytes
from gputopo.catalogue.boards import NVLINKS_OF_A_GPU, rated_link
from gputopo.runtime.messages import first_error
from gputopo.topology.model import (
    MAX_INDEX,
    Ancestor,
    Gpu,
    GpuIndex,
    GpuUuid,
    Link,
    LinkKind,
    NodeTopology,
    TopologyError,
)
from gputopo.topology.rates import (
    PCIE_LANES,
    PCIE_X16_MB_PER_S,
    pcie_version_beside,
)

_NAMESPACE: Final = uuid5(NAMESPACE_DNS, "handwritten.gputopo.io")

_Index = Annotated[int, Field(strict=True, ge=0, le=MAX_INDEX)]
_NvLinkGeneration = Annotated[int, Field(strict=True, ge=1, le=max(NVLINKS_OF_A_GPU))]
_NvLinkCount = Annotated[int, Field(strict=True, ge=1, le=max(NVLINKS_OF_A_GPU.values()))]
_Groups = list[Annotated[list[_Index], Field(min_length=1)]]


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", frozen=True
    )


class _NvLink(_Part):
    generation: _NvLinkGeneration
    links: list[tuple[_Index, _Index, _NvLinkCount]]


class _NvSwitch(_Part):
    generation: _NvLinkGeneration
    links_per_gpu: _NvLinkCount


class _Handwritten(_Part):
    gpus: Annotated[int, Field(strict=True, ge=1, le=MAX_INDEX + 1)]
    model: Annotated[str, Field(max_length=128)] = ""
    memory: Memory = "0"
    sockets: _Groups = []
    host_bridges: _Groups = []
    switch_trees: _Groups = []
    switches: _Groups = []
    pcie_generation: Annotated[int, Field(strict=True, ge=1, le=max(PCIE_X16_MB_PER_S))] | None = (
        None
    )
    pcie_lanes: Annotated[int, Field(strict=True, ge=1, le=PCIE_LANES)] = PCIE_LANES
    nvlink: _NvLink | None = None
    nvswitch: _NvSwitch | None = None


_LEVEL_OF: Final[Mapping[str, Ancestor]] = MappingProxyType(
    {
        "switches": Ancestor.PIX,
        "switchTrees": Ancestor.PXB,
        "hostBridges": Ancestor.PHB,
        "sockets": Ancestor.NODE,
    }
)
"""Common PCIe ancestor of the GPUs of a group, by the name of its field, nearest first."""


def parse_handwritten(document: object, name: str) -> NodeTopology:
    """Return the topology of a handwritten file. ``document`` is the decoded JSON or YAML.

    GPU UUIDs are derived from the name of the file and the GPU index.

    Raises:
        TopologyError: on an unknown, missing or wrong field; the message names field and value.
    """
    try:
        file = _Handwritten.model_validate(document)
    except ValidationError as error:
        known = [field.alias or "" for field in _Handwritten.model_fields.values()]
        raise TopologyError(first_error(error, fields=known)) from None
    tree = _tree(file)
    nvlinks = _nvlinks(file)
    return NodeTopology(
        gpus=tuple(_gpu(file, name, index, tree["sockets"]) for index in range(file.gpus)),
        links=tuple(
            _link(file, (a, b), nvlinks.get((a, b), 0), _ancestor(tree, a, b))
            for a, b in combinations(range(file.gpus), 2)
        ),
    )


def _tree(file: _Handwritten) -> dict[str, _Groups]:
    """Return the groups of GPUs by field: ``switches`` first, ``sockets`` last.

    Raises:
        TopologyError: if a GPU is in no socket or in two groups of one field, or if a higher level
            splits a group: for example, the GPUs of one switch are in two sockets.
    """
    tree = {
        "switches": file.switches,
        "switchTrees": file.switch_trees,
        "hostBridges": file.host_bridges,
        "sockets": file.sockets or [list(range(file.gpus))],
    }
    for field, groups in tree.items():
        _require_known(file, field, [gpu for group in groups for gpu in group])
    for missing in sorted(set(range(file.gpus)) - {gpu for one in tree["sockets"] for gpu in one}):
        raise TopologyError(f"sockets: GPU {missing} is in none of {tree['sockets']}")
    for near, far in combinations(tree, 2):
        for group in tree[near]:
            overlapping = [other for other in tree[far] if set(group) & set(other)]
            if len(overlapping) > 1:
                raise TopologyError(
                    f"{near}: GPUs {group} are in several groups of {far}: {overlapping}"
                )
    return tree


def _require_known(file: _Handwritten, field: str, gpus: Sequence[int]) -> None:
    for gpu in gpus:
        if gpu >= file.gpus:
            raise TopologyError(f"{field}: GPU {gpu} is not one of 0..{file.gpus - 1}")
        if gpus.count(gpu) > 1:
            raise TopologyError(f"{field}: GPU {gpu} occurs more than once")


def _ancestor(tree: Mapping[str, _Groups], a: int, b: int) -> Ancestor:
    for field, groups in tree.items():
        if any(a in group and b in group for group in groups):
            return _LEVEL_OF[field]
    return Ancestor.SYS


def _nvlinks(file: _Handwritten) -> dict[tuple[int, int], int]:
    """Return the number of NVLinks of each pair ``(a, b)`` that has direct NVLinks; ``a < b``."""
    if file.nvlink is None:
        return {}
    if file.nvswitch is not None:
        raise TopologyError("nvswitch: not allowed together with nvlink; remove one of them")
    counts: dict[tuple[int, int], int] = {}
    for one, other, count in file.nvlink.links:
        _require_known(file, f"nvlink.links: [{one}, {other}, {count}]", (one, other))
        pair = (min(one, other), max(one, other))
        if pair in counts:
            raise TopologyError(f"nvlink.links: the pair {list(pair)} occurs more than once")
        counts[pair] = count
    return counts


def _gpu(file: _Handwritten, name: str, index: int, sockets: _Groups) -> Gpu:
    return Gpu(
        index=GpuIndex(index),
        uuid=GpuUuid(f"GPU-{uuid5(_NAMESPACE, f'{name}/{index}')}"),
        minor=index,
        pci_bus_id="",
        model=file.model,
        memory_bytes=parse_bytes(file.memory, "memory"),
        numa_node=next(number for number, group in enumerate(sockets) if index in group),
    )


def _link(file: _Handwritten, pair: tuple[int, int], nvlinks: int, ancestor: Ancestor) -> Link:
    if file.nvswitch is not None:
        kind, version = LinkKind.NVSWITCH, file.nvswitch.generation
        count = file.nvswitch.links_per_gpu
    elif file.nvlink is not None and nvlinks:
        kind, version, count = LinkKind.NVLINK, file.nvlink.generation, nvlinks
    else:
        nvlink_version = file.nvlink.generation if file.nvlink else 0
        kind, count = LinkKind.PCIE, file.pcie_lanes
        version = file.pcie_generation or pcie_version_beside(nvlink_version)
    return rated_link(pair, (kind, version, count), ancestor, file.model)
