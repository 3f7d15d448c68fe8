"""What ``gputopo topology`` says."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from gputopo.api.names import API_VERSION
from gputopo.api.topology import to_spec
from gputopo.topology.model import GpuIndex, GpuMask, indices_of, mask_of
from gputopo_cli.shared import output, words
from gputopo_cli.shared.errors import InputError
from gputopo_cli.topology import load as sources
from gputopo_cli.topology.matrix import matrix
from gputopo_cli.topology.picture import Marks, every_pair, svg
from gputopo_cli.topology.source import Source
from gputopo_topologies import catalogue


def list_catalogue(form: str) -> None:
    """Write the servers of the catalogue."""
    entries = [catalogue.describe(name) for name in catalogue.names()]
    if form == "json":
        output.write_json([_entry(entry) for entry in entries])
    else:
        rows = [
            (entry.name, str(entry.gpus), entry.description, ", ".join(entry.aliases))
            for entry in entries
        ]
        output.show([output.table("NAME", "GPUs>", "SERVER AND LINKS", "ALSO CALLED", rows=rows)])


def show(
    topology: str, gpus: str, busy: str, context: str | None, form: str, output_file: str | None
) -> None:
    """Write one topology with these GPUs marked."""
    source = sources.find(topology, context)
    chosen = words.gpu_list(gpus, "gpus", source.topology)
    taken = words.gpu_set(busy, "busy", source.topology) | source.in_use_mask
    if both := mask_of(chosen) & taken:
        raise InputError(f"gpus: {indices_of(GpuMask(both))[0]} is busy")
    states = {gpu: source.in_use.get(gpu, "busy") for gpu in indices_of(GpuMask(taken))}
    states.update({gpu: f"rank {rank}" for rank, gpu in enumerate(chosen)})
    if form == "svg":
        marks = Marks(chosen, indices_of(GpuMask(taken)), every_pair(chosen))
        output.write(svg(source, marks), output_file)
    elif form == "json":
        output.write_json(_document(source, states), output_file)
    else:
        output.show(_lines(source, states), output_file)


def _entry(entry: catalogue.CatalogueEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "gpus": entry.gpus,
        "links": entry.description,
        "aliases": list(entry.aliases),
    }


def _document(source: Source, states: Mapping[GpuIndex, str]) -> dict[str, object]:
    """Return a GPUTopology object that can be read again, and what was marked."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": source.name.removeprefix("node/")},
        "spec": to_spec(source.topology).to_json(),
        "states": {str(gpu): state for gpu, state in sorted(states.items())},
    }


def _lines(source: Source, states: Mapping[GpuIndex, str]) -> Iterator[Text]:
    yield Text(f"{source.name}: {source.in_short}", "bold")
    yield Text()
    yield from matrix(source.topology, states, output.width())
