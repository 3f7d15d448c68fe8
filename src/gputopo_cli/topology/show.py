"""Write the catalogue or one topology as text, JSON or a picture (``gputopo topology``)."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from rich.text import Text

from gputopo import catalogue
from gputopo.api.names import API_VERSION
from gputopo.api.topology import to_spec
from gputopo.catalogue.server import ServerModel
from gputopo.topology.model import GpuIndex, GpuMask, indices_of, mask_of
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import parse_gpus
from gputopo_cli.shared.errors import InputError
from gputopo_cli.topology.load import LoadedTopology, load_topology
from gputopo_cli.topology.matrix import format_matrix
from gputopo_explain.drawing.svg import Marks, draw_topology


def list_catalogue(form: str) -> None:
    """Write the servers of the catalogue."""
    servers = catalogue.SERVERS.items()
    if form == "json":
        output.write_json([_server_document(name, server) for name, server in servers])
    else:
        rows = [
            (name, str(server.gpus), server.description, ", ".join(_aliases(server)))
            for name, server in servers
        ]
        output.show([output.table("NAME", "GPUs>", "SERVER AND LINKS", "ALSO CALLED", rows=rows)])


def show_topology(
    argument: str, gpus: str, busy: str, context: str | None, form: str, output_file: str | None
) -> None:
    """Write one topology, with allocated and busy GPUs marked."""
    loaded = load_topology(argument, context)
    chosen = parse_gpus(gpus, "gpus", loaded.topology)
    used = GpuMask(mask_of(parse_gpus(busy, "busy", loaded.topology)) | loaded.in_use_mask)
    if both := mask_of(chosen) & used:
        raise InputError(f"gpus: {indices_of(GpuMask(both))[0]} is busy")
    states = {gpu: loaded.in_use.get(gpu, "busy") for gpu in indices_of(used)}
    states |= {gpu: f"rank {rank}" for rank, gpu in enumerate(chosen)}
    if form == "svg":
        # The pattern is unknown: every pair of allocated GPUs may communicate.
        marks = Marks(chosen, indices_of(used), tuple(combinations(chosen, 2)))
        picture = draw_topology(loaded.topology, marks, name=loaded.name, summary=loaded.summary)
        output.write(picture, output_file)
    elif form == "json":
        output.write_json(_topology_document(loaded, states), output_file)
    else:
        output.show(_lines(loaded, states), output_file)


def _server_document(name: str, server: ServerModel) -> dict[str, object]:
    return {
        "name": name,
        "gpus": server.gpus,
        "links": server.description,
        "aliases": list(server.aliases),
        "aliasGpus": {alias: gpu.name for alias, gpu in server.alias_gpus.items()},
    }


def _aliases(server: ServerModel) -> Iterator[str]:
    """Yield the further names, each with the GPU model if the server has another one."""
    for alias in server.aliases:
        other = server.alias_gpus.get(alias)
        yield alias if other is None else f"{alias} ({other.name})"


def _topology_document(loaded: LoadedTopology, states: Mapping[GpuIndex, str]) -> dict[str, object]:
    """Return a GPUTopology with the states of GPUs. ``gputopo`` can load it as a file."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": loaded.name.removeprefix("node/")},
        "spec": to_spec(loaded.topology).to_json(),
        "states": {str(gpu): state for gpu, state in sorted(states.items())},
    }


def _lines(loaded: LoadedTopology, states: Mapping[GpuIndex, str]) -> Iterator[Text]:
    yield Text(f"{loaded.name}: {loaded.summary}", "bold")
    yield Text()
    yield from format_matrix(loaded.topology, states, output.width())
