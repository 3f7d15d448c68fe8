"""Simulate a node's GPUs: the simulated NVML and MPS, its data, device files, a CDI spec."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fakemps.build import install_programs
from fakenvml.build import build_library
from fakenvml.render import render
from gputopo.catalogue import named, names
from gputopo.topology.model import NodeTopology
from localcluster import settings
from localcluster.errors import ClusterError
from localcluster.settings import Paths

NO_GPUS = "none"

_TOPOLOGY_IN_CONTAINER = "/driver/lib/driver/lib/topology.conf"
"""The simulated NVML in the container that runs MPS: the chart mounts the folder of the programs
read-only, and the driver's libraries here."""
DEFAULT_SERVERS = {"n1": "dgx1-v100", "n2": "dgx-a100", "n3": "pcie-8gpu"}

# Major 195 is NVIDIA's. The real nvidia-uvm has a major that the kernel hands out; here it might be
# another driver's, so the stand-in takes a number of NVIDIA's that no driver uses.
_NVIDIA_MAJOR = 195
_CONTROL_DEVICES = (("nvidiactl", _NVIDIA_MAJOR, 255), ("nvidia-uvm", _NVIDIA_MAJOR, 253))


def parse_servers(words: Sequence[str]) -> dict[str, str]:
    """The server of each node, from words such as `n1=dgx1-v100`; others have a default.

    A word for n4 to n9 adds that node.

    Raises:
        ClusterError: a word of another form, or a server that the catalogue does not have.
    """
    servers = dict(DEFAULT_SERVERS)
    for word in words:
        node, separator, server = word.partition("=")
        if not separator:
            raise ClusterError(f"--gpus {word!r}: must be NODE=SERVER, as n1=dgx1-v100")
        settings.node_of_name(node)
        if server not in (*names(), NO_GPUS):
            allowed = ", ".join([*names(), NO_GPUS])
            raise ClusterError(f"--gpus {word!r}: {server!r} is not one of {allowed}")
        servers[node] = server
    return servers


def device_lines(topology: NodeTopology) -> list[str]:
    """One line `NAME MAJOR MINOR` for each device file of the node."""
    gpus = [(f"nvidia{gpu.minor}", _NVIDIA_MAJOR, gpu.minor) for gpu in topology.gpus]
    return [f"{name} {major} {minor}" for name, major, minor in (*gpus, *_CONTROL_DEVICES)]


def _devices(topology: NodeTopology) -> str:
    return "\n".join(device_lines(topology)) + "\n"


def cdi_spec(topology: NodeTopology) -> dict[str, Any]:
    """Return the CDI spec that `nvidia-ctk cdi generate --device-name-strategy=uuid` would write.

    Without the driver's libraries and their hooks, which the simulated driver does not have.
    """
    devices = [
        {"name": gpu.uuid, "containerEdits": {"deviceNodes": [_cdi_node(f"nvidia{gpu.minor}")]}}
        for gpu in topology.gpus
    ]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": devices,
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [_cdi_node(name) for name, _, _ in _CONTROL_DEVICES],
        },
    }


def _cdi_node(name: str) -> dict[str, str]:
    return {"path": f"/dev/{name}", "hostPath": str(settings.DRIVER / "dev" / name)}


def install(servers: Mapping[str, str], node: str, folder: Path) -> None:
    """Write the files for `nodeinit` to set up the driver; none for a node without GPUs."""
    server = servers.get(node, NO_GPUS)
    if server == NO_GPUS:
        return
    topology = named(server, node=node)
    library = build_library(folder / "lib")
    library.with_name("topology.conf").write_text(render(topology))
    install_programs(folder / "bin", topology=_TOPOLOGY_IN_CONTAINER)
    (folder / "devices").write_text(_devices(topology))
    (folder / "cdi.json").write_text(json.dumps(cdi_spec(topology), indent=1))


@contextmanager
def playing(paths: Paths, node: str, topology: NodeTopology) -> Iterator[None]:
    """Use these GPUs for the driver of a node that is off, at its next starts in the block."""
    folder = paths.node(node) / "gpus"
    texts = {
        folder / "lib" / "topology.conf": render(topology),
        folder / "devices": _devices(topology),
    }
    before = {file: file.read_text() for file in texts}
    try:
        for file, text in texts.items():
            file.write_text(text)
        yield
    finally:
        for file, text in before.items():
            file.write_text(text)
