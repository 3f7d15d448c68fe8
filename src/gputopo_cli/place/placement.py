"""What ``gputopo place`` says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind, build
from gputopo.placement.model import Match, NoFit, PlacementRequest, PolicyName
from gputopo.placement.place import place as choose
from gputopo.placement.place import ranking
from gputopo.sensitivity.resolve import Sensitivity, resolve
from gputopo.topology.model import GpuMask, indices_of
from gputopo_cli.bandwidth import models
from gputopo_cli.place.edges import edge_list
from gputopo_cli.shared import output, words
from gputopo_cli.topology import load as sources
from gputopo_cli.topology.picture import Marks, svg
from gputopo_cli.topology.source import Source

MOST_RUNNERS_UP = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """The options of ``place`` as they stand on the command line."""

    topology: str
    gpus: str
    pattern: PatternKind | None
    edges: str
    sensitive: bool | None
    busy: str
    policy: PolicyName
    model: str | None
    runners_up: str
    context: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked, and what came out.

    Attributes:
        matches: the chosen set and the runners-up, best first; none where nothing fits.
        reason: why nothing fits.
    """

    source: Source
    busy: GpuMask
    request: PlacementRequest
    policy: PolicyName
    matches: tuple[Match, ...]
    reason: str | None


def place(question: Question, form: str, output_file: str | None) -> bool:
    """Write which GPUs a job gets, and return whether it gets any."""
    answer = answer_to(question)
    if form == "json":
        output.write_json(document(answer), output_file)
    elif form == "svg":
        output.write(picture(answer), output_file)
    else:
        output.show(lines(answer), output_file)
    return answer.reason is None


def answer_to(question: Question) -> Answer:
    """Return what the core says.

    Raises:
        InputError: on an option that is no good.
        TopologyError: on a topology that is none.
        PatternError: on a pattern that cannot be.
        ModelError: on a model that is not known or may not be used here.
    """
    size = words.whole_number(question.gpus, "gpus", 1, MAX_GPUS_PER_POD)
    more = words.whole_number(question.runners_up, "runners-up", most=MOST_RUNNERS_UP)
    edges = edge_list(question.edges)
    kind = question.pattern or (PatternKind.CUSTOM if edges else PatternKind.RING)
    request = PlacementRequest(
        build(kind, size, edges), _is_sensitive(question.sensitive, size), question.policy
    )
    model = models.find(question.model)
    source = sources.find(question.topology, question.context)
    busy = words.gpu_set(question.busy, "busy", source.topology) | source.in_use_mask
    free = GpuMask(source.topology.mask & ~busy)
    found = choose(source.topology, free, request, model)
    if isinstance(found, NoFit):
        return Answer(source, GpuMask(busy), request, question.policy, (), found.reason)
    matches = ranking(source.topology, free, request, model, most=1 + more)
    return Answer(source, GpuMask(busy), request, question.policy, matches, None)


def document(answer: Answer) -> dict[str, object]:
    """Return the answer as JSON; its keys are a contract (docs/cli.md)."""
    if answer.reason is not None:
        return {"gpus": None, "reason": answer.reason, **_question(answer)}
    best, *runners_up = answer.matches
    return {
        **_figures(best),
        **_question(answer),
        "model": best.model,
        "aggregateBoundGBps": output.gb_per_s(best.bound_mb_per_s),
        "runnersUp": [_figures(match) for match in runners_up],
    }


def lines(answer: Answer) -> Iterator[RenderableType]:
    """Return the answer as lines and a table."""
    if answer.reason is not None:
        yield Text(f"nothing fits {answer.source.name}: {answer.reason}")
        return
    best = answer.matches[0]
    noun = "GPU" if len(best.gpus) == 1 else "GPUs"
    yield Text(f"{noun} {_listed(best.gpus)} of {answer.source.name}", "bold")
    by = f", effective bandwidth by {best.model}" if best.model else ""
    yield Text(f"{_in_words(answer)}, policy {words.word(answer.policy)}{by}")
    if not best.exact:
        bound = output.figure(best.bound_mb_per_s)
        yield Text(f"a better rank order of these GPUs may exist, of up to {bound} GB/s aggregate")
    yield Text()
    columns = ("", "GPUS IN RANK ORDER", "AGGREGATE>", "EFFECTIVE>", "PRESERVED GB/s>")
    yield output.table(*columns, rows=map(_row, range(len(answer.matches)), answer.matches))


def picture(answer: Answer) -> str:
    """Return the node as SVG, with the chosen GPUs and the links that the job uses."""
    gpus = answer.matches[0].gpus if answer.matches else ()
    edges = [(gpus[edge.a], gpus[edge.b]) for edge in answer.request.pattern.edges if gpus]
    return svg(answer.source, Marks(gpus, indices_of(answer.busy), edges))


def _is_sensitive(declared: bool | None, size: int) -> bool:
    if declared is None:
        return resolve(Sensitivity.AUTO, gpus=size).sensitive
    return declared


def _question(answer: Answer) -> dict[str, object]:
    return {
        "topology": answer.source.name,
        "pattern": words.word(answer.request.pattern.kind),
        "sensitive": answer.request.sensitive,
        "busy": list(indices_of(answer.busy)),
        "policy": words.word(answer.policy),
    }


def _figures(match: Match) -> dict[str, object]:
    return {
        "gpus": list(match.gpus),
        "aggregateBandwidthGBps": output.gb_per_s(match.aggregate_mb_per_s),
        "effectiveBandwidthGBps": output.gb_per_s(match.effective_mb_per_s),
        "preservedBandwidthGBps": output.gb_per_s(match.preserved_mb_per_s),
    }


def _row(place_: int, match: Match) -> tuple[str, ...]:
    return (
        "chosen" if place_ == 0 else f"{place_ + 1}.",
        _listed(match.gpus),
        output.figure(match.aggregate_mb_per_s),
        output.figure(match.effective_mb_per_s),
        output.figure(match.preserved_mb_per_s),
    )


def _in_words(answer: Answer) -> str:
    pattern = answer.request.pattern
    if pattern.size == 1:
        return "one GPU"
    kind = "sensitive" if answer.request.sensitive else "insensitive"
    return f"{kind} {words.word(pattern.kind)} of {pattern.size}"


def _listed(gpus: Sequence[int]) -> str:
    return ", ".join(map(str, gpus))
