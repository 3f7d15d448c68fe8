"""Choose GPUs for one job and write them as text, JSON or a picture (``gputopo place``)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.utility import UtilityFigures, as_number
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternEdge, PatternKind, build
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place, ranking
from gputopo.runtime.messages import quoted
from gputopo.sensitivity.resolve import Sensitivity, resolve_sensitivity
from gputopo.topology.model import GpuMask, indices_of, mask_of
from gputopo_cli.bandwidth.models import find_model
from gputopo_cli.place.options import LiveOptions, PlaceOptions
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import parse_gpus, parse_integer, to_word
from gputopo_cli.shared.errors import InputError
from gputopo_cli.topology.load import LoadedTopology, load_topology
from gputopo_explain.drawing.svg import Marks, draw_topology

_TERMS: Final = ("UTILITY>", "COMMUNICATION>", "INTERFERENCE>", "FRAGMENTATION>")
_MAX_WEIGHT: Final = 1000
_EDGE: Final = re.compile(r"(?P<from>\d+)-(?P<to>\d+)(:(?P<weight>\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlaceResult:
    """A placement request, with defaults for options that were not given, and its result.

    Attributes:
        matches: the chosen set of GPUs and the next best sets, best first; empty if nothing fits.
        reason: why nothing fits.
    """

    loaded: LoadedTopology
    busy: GpuMask
    request: PlacementRequest
    matches: tuple[Match, ...]
    reason: str | None


def write_placement(
    options: PlaceOptions, live: LiveOptions, form: str, output_file: str | None
) -> bool:
    """Write the GPUs for a job, and return whether the job fits.

    Raises:
        InputError: if a required option is missing, or an option is only valid with --live.
    """
    if live != LiveOptions():
        raise InputError("live: --filename, --node, --after-end and --without-node need --live")
    result = _place(options)
    if form == "json":
        output.write_json(_document(result), output_file)
    elif form == "svg":
        output.write(_draw(result), output_file)
    else:
        output.show(_lines(result), output_file)
    return result.reason is None


def _place(options: PlaceOptions) -> PlaceResult:
    if not options.topology:
        raise InputError(
            "topology: is required without --live; `gputopo topology list` shows the names"
        )
    request = _parse_request(options)
    model = find_model(options.model)
    loaded = load_topology(options.topology, options.context)
    topology = loaded.topology
    busy = GpuMask(mask_of(parse_gpus(options.busy, "busy", topology)) | loaded.in_use_mask)
    free = GpuMask(topology.mask & ~busy)
    choice = place(topology, free, request, model)
    if isinstance(choice, NoFit):
        return PlaceResult(loaded, busy, request, (), choice.reason)
    matches = ranking(topology, free, request, model, most=1 + options.runners_up)
    return PlaceResult(loaded, busy, request, matches, None)


def _parse_request(options: PlaceOptions) -> PlacementRequest:
    if options.gpus is None:
        raise InputError("gpus: is required: state how many GPUs the job requests")
    edges = parse_edges(options.edges)
    kind = options.pattern or (PatternKind.CUSTOM if edges else PatternKind.RING)
    sensitive = options.sensitive
    if sensitive is None:
        sensitive = resolve_sensitivity(Sensitivity.AUTO, gpus=options.gpus).sensitive
    policy = options.policy or PolicyName.PRESERVE
    return PlacementRequest(build(kind, options.gpus, edges), sensitive, policy)


def parse_edges(text: str | None) -> list[PatternEdge]:
    """Parse a list of edges such as ``0-1:2,1-2``. None gives no edges."""
    return [] if text is None else [_parse_edge(part.strip()) for part in text.split(",")]


def _parse_edge(text: str) -> PatternEdge:
    """Parse an edge such as ``0-1:2``: ranks 0 and 1, weight 2. Without ``:2`` the weight is 1."""
    found = _EDGE.fullmatch(text)
    if found is None:
        raise InputError(f"edges: {quoted(text)} is not written as 0-1 or 0-1:2")
    return PatternEdge(
        a=parse_integer(found["from"], "edges", most=MAX_GPUS_PER_POD - 1),
        b=parse_integer(found["to"], "edges", most=MAX_GPUS_PER_POD - 1),
        weight=parse_integer(found["weight"] or "1", "edges", 1, _MAX_WEIGHT),
    )


def _document(result: PlaceResult) -> dict[str, object]:
    """Return the result as JSON. Later versions must keep all keys (docs/use/cli.md)."""
    if result.reason is not None:
        return {"gpus": None, "reason": result.reason, **_request_document(result)}
    best, *runners_up = result.matches
    return {
        **match_document(best),
        **_request_document(result),
        "model": best.model,
        "aggregateBoundGBps": output.to_gb_per_s(best.bound_mb_per_s),
        "runnersUp": [match_document(match) for match in runners_up],
    }


def _request_document(result: PlaceResult) -> dict[str, object]:
    return {
        "topology": result.loaded.name,
        "pattern": to_word(result.request.pattern.kind),
        "sensitive": result.request.sensitive,
        "busy": list(indices_of(result.busy)),
        "policy": to_word(result.request.policy),
    }


def match_document(match: Match) -> dict[str, object]:
    """Return GPUs and bandwidths as JSON."""
    utility = {"utility": UtilityFigures.of(match.utility).to_json()} if match.utility else {}
    return {
        "gpus": list(match.gpus),
        "aggregateBandwidthGBps": output.to_gb_per_s(match.aggregate_mb_per_s),
        "effectiveBandwidthGBps": output.to_gb_per_s(match.effective_mb_per_s),
        "preservedBandwidthGBps": output.to_gb_per_s(match.preserved_mb_per_s),
        **utility,
    }


def _draw(result: PlaceResult) -> str:
    gpus = result.matches[0].gpus if result.matches else ()
    edges = [(gpus[edge.a], gpus[edge.b]) for edge in result.request.pattern.edges if gpus]
    marks = Marks(gpus, indices_of(result.busy), edges)
    loaded = result.loaded
    return draw_topology(loaded.topology, marks, name=loaded.name, summary=loaded.summary)


def _lines(result: PlaceResult) -> Iterator[RenderableType]:
    if result.reason is not None:
        yield Text(f"nothing fits {result.loaded.name}: {result.reason}")
        return
    best = result.matches[0]
    noun = "GPU" if len(best.gpus) == 1 else "GPUs"
    yield Text(f"{noun} {join_gpus(best.gpus)} of {result.loaded.name}", "bold")
    model = f", effective bandwidth by {best.model}" if best.model else ""
    yield Text(
        f"{describe_request(result.request)}, policy {to_word(result.request.policy)}{model}"
    )
    if not best.exact:
        bound = output.format_gb_per_s(best.bound_mb_per_s)
        yield Text(f"a better rank order of these GPUs may exist, of up to {bound} GB/s aggregate")
    yield Text()
    yield matches_table(result.matches)


def matches_table(matches: Sequence[Match]) -> RenderableType:
    """Return a table of the chosen GPUs and the next best sets."""
    columns = ("", "GPUS IN RANK ORDER", "AGGREGATE>", "EFFECTIVE>", "PRESERVED GB/s>")
    terms = _TERMS if matches[0].utility else ()
    return output.table(*columns, *terms, rows=map(_row, range(len(matches)), matches))


def _row(position: int, match: Match) -> tuple[str, ...]:
    return (
        "chosen" if position == 0 else f"{position + 1}.",
        join_gpus(match.gpus),
        output.format_gb_per_s(match.aggregate_mb_per_s),
        output.format_gb_per_s(match.effective_mb_per_s),
        output.format_gb_per_s(match.preserved_mb_per_s),
        *_term_cells(match),
    )


def _term_cells(match: Match) -> tuple[str, ...]:
    if match.utility is None:
        return ()
    figures = UtilityFigures.of(match.utility)
    terms = figures.utility, figures.communication, figures.interference, figures.fragmentation
    return tuple(map(as_number, terms))


def describe_request(request: PlacementRequest) -> str:
    """Return sensitivity, pattern and size in words."""
    if request.pattern.size == 1:
        return "one GPU"
    kind = "sensitive" if request.sensitive else "insensitive"
    return f"{kind} {to_word(request.pattern.kind)} of {request.pattern.size}"


def join_gpus(gpus: Sequence[int]) -> str:
    """Return the indices of GPUs as text."""
    return ", ".join(map(str, gpus))
