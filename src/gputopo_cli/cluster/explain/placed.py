"""The explanation of a placed pod as text."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.utility import as_number
from gputopo_cli.cluster.explain.utility import utility_lines
from gputopo_cli.shared import output
from gputopo_explain.placed.choices import Choices, GpuChoice
from gputopo_explain.placed.explanation import AS_INTENDED, PlacedExplanation, PodGpu
from gputopo_explain.placed.nodes import UNKNOWN_NODES, node_sentences
from gputopo_explain.placed.replay import Replay, ReplayVerdict
from gputopo_explain.placed.request import RequestPart
from gputopo_explain.placed.share import share_parts
from gputopo_explain.text import format_gb_per_s, one_line
from gputopo_kube.pods import PodView

_VERDICTS: Final = {
    ReplayVerdict.SAME: "same choice: the recorded input gives these GPUs and figures again",
    ReplayVerdict.DIFFERENT: "DIFFERENT: the recorded input does not give what was recorded",
    ReplayVerdict.UNKNOWN: "unknown",
}
_COLUMNS: Final = (
    *("", "GPUS IN RANK ORDER", "EFFECTIVE GB/s>", "DIFFERENCE>"),
    *("PRESERVED GB/s>", "DIFFERENCE>"),
)
_UTILITY: Final = "UTILITY>"


def placed_lines(found: PlacedExplanation) -> Iterator[RenderableType]:
    """Yield the lines and tables of the explanation."""
    yield Text(_title(found), "bold")
    yield Text()
    if found.request:
        yield output.table("REQUEST", "", "FROM", rows=map(_request_row, found.request))
        yield Text()
    if found.share:
        rows = ((part.name, part.value, part.why) for part in share_parts(found.share))
        yield output.table("SHARE", "", "WHY", rows=(tuple(map(one_line, row)) for row in rows))
        yield Text()
    if found.choices:
        utility = found.choices.utility
        yield output.table(
            *_COLUMNS,
            *([_UTILITY] if utility else []),
            rows=_choice_rows(found.choices, first="replay" if found.differs else "chosen"),
        )
        yield Text()
        if utility:
            yield from utility_lines(utility)
            yield Text()
    yield output.table("CHECK", "RESULT", rows=_checks(found))


def _title(found: PlacedExplanation) -> str:
    gpus = [gpu for gpu in found.gpus if gpu.rank is not None]
    if not gpus:
        return f"pod {found.pod.key}: on node {found.node}, GPUs unknown"
    share = "a share of " if found.share else ""
    return f"pod {found.pod.key}: {share}{_names(gpus)} of node {found.node}"


def _names(gpus: Sequence[PodGpu]) -> str:
    """Return the indices, or the UUIDs of GPUs that the node does not have."""
    names = [one_line(gpu.uuid) if gpu.index is None else str(gpu.index) for gpu in gpus]
    return f"GPU{'s' * (len(gpus) != 1)} {', '.join(names)}"


def _request_row(part: RequestPart) -> tuple[str, ...]:
    source = f"{part.source}; {part.changed}" if part.changed else part.source
    return part.name, one_line(part.value), one_line(source)


def _choice_rows(choices: Choices, first: str) -> Iterator[tuple[str, ...]]:
    yield _choice_row(first, choices.chosen, compare=False)
    for position, each in enumerate(choices.alternatives, start=2):
        yield _choice_row(f"{position}.", each)
    # More GPUs stay free on an idle node, so a difference of the preserved bandwidth says nothing.
    name, *row = _choice_row("idle node", choices.idle.choice)
    row[len(_COLUMNS) - 2] = ""
    yield name, *row


def _choice_row(name: str, choice: GpuChoice, *, compare: bool = True) -> tuple[str, ...]:
    difference = _difference(choice.effective_difference, choice.effective_percent)
    preserved = _difference(choice.preserved_difference, choice.preserved_percent)
    return (
        name,
        ", ".join(map(str, choice.gpus)),
        format_gb_per_s(choice.effective),
        difference if compare else "",
        format_gb_per_s(choice.preserved),
        preserved if compare else "",
        *(() if choice.utility is None else (as_number(choice.utility),)),
    )


def _difference(mb_per_s: int | None, percent: float | None) -> str:
    """Return a difference as text.

    >>> _difference(-12500, -25.0), _difference(0, 0.0), _difference(None, None)
    ('-12.5 (-25 %)', '0', '-')
    """
    if not mb_per_s:
        return "-" if mb_per_s is None else "0"
    sign = "+" if mb_per_s > 0 else ""
    relative = "" if percent is None else f" ({percent:+.0f} %)"
    return f"{sign}{format_gb_per_s(mb_per_s)}{relative}"


def _checks(found: PlacedExplanation) -> Iterator[tuple[str, str]]:
    if not found.pod.live:
        yield "pod", one_line(_how_ended(found.pod))
    idle = found.choices.idle if found.choices and not found.differs else None
    if found.choices and idle and idle.reached_percent is not None:
        most = format_gb_per_s(idle.most_effective)
        yield (
            "bandwidth",
            (
                f"{idle.reached_percent:.0f} % of {most} GB/s, the most that a set of this size "
                f"has on this node; by the model {found.choices.model}"
            ),
        )
    if found.waited:
        yield "wait", one_line(found.waited.end_text() or found.waited.wait_text())
    for line in _node_lines(found):
        yield "other nodes", one_line(line)
    for line in _replay_lines(found.replay):
        yield "replay", one_line(line)
    for line in _gpu_lines(found.gpus):
        yield "kubelet", line


def _how_ended(pod: PodView) -> str:
    if pod.rejected is None:
        return f"has ended: {pod.phase}"
    return f"kubelet rejected the pod: {pod.rejected}"


def _node_lines(found: PlacedExplanation) -> Sequence[str]:
    if found.nodes:
        return node_sentences(found.node, found.nodes)
    return (UNKNOWN_NODES if found.recorded.record else "unknown",)


def _replay_lines(replay: Replay) -> Iterator[str]:
    yield ": ".join([_VERDICTS[replay.verdict], *replay.reasons[:1]])
    yield from replay.reasons[1:]


def _gpu_lines(gpus: Sequence[PodGpu]) -> Iterator[str]:
    if gpus and all(gpu.state == AS_INTENDED for gpu in gpus):
        yield "the pod has exactly the intended GPUs"
        return
    for state in dict.fromkeys(gpu.state for gpu in gpus):
        named = [gpu for gpu in gpus if gpu.state == state]
        yield f"{_names(named)}: {state}"
