"""Curves of GPUProfiles as small SVG pictures, with 95 % intervals."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from markupsafe import Markup, escape
from pydantic import ValidationError

from gputopo.api.profile import CommunicationFact, GPUProfile, LoadFact, WorkloadFacts
from gputopo.runtime.messages import first_error
from gputopo_explain.text import counted, format_number
from gputopo_kube.document import Document, ObjectKey
from gputopo_web.pages.environment import clean

_WIDTH: Final = 300
_HEIGHT: Final = 170
_LEFT: Final = 48
_BOTTOM: Final = 30
_TOP: Final = 12
_RIGHT: Final = 12
_COLOUR: Final = "#0072b2"
_INK: Final = "#22303c"
_GRID: Final = "#d9dfe5"
_MOST_STEPS: Final = 5

Place: TypeAlias = Callable[[float, float], tuple[float, float]]
"""Returns the pixels of a point."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One measured or extrapolated throughput, in steps per second, with its half interval."""

    x: float
    rate: float
    half: float
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve with its caption."""

    caption: str
    picture: Markup


@dataclass(frozen=True, slots=True)
class ShownProfile:
    """One GPUProfile.

    Attributes:
        lines: the facts that are no curves, as texts.
        fault: why the object cannot be parsed; empty if it can.
    """

    key: ObjectKey
    lines: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    fault: str = ""


def shown_profile(key: ObjectKey, document: Document) -> ShownProfile:
    """Return what the page shows of a GPUProfile."""
    try:
        profile = GPUProfile.model_validate(document)
    except ValidationError as error:
        return ShownProfile(key, fault=first_error(error))
    facts = profile.status.facts
    declared = profile.spec.bandwidth_sensitivity_percent
    lines = [] if declared is None else [f"declared: {declared} % longer on the worst links"]
    if facts is None:
        return ShownProfile(key, [*lines, f"{len(profile.status.samples)} samples, no facts yet"])
    return ShownProfile(key, [*lines, *_lines(facts)], [*_curves(facts)])


def _lines(facts: WorkloadFacts) -> Iterator[str]:
    yield f"GPU model {facts.gpu_model}"
    for fact in facts.links:
        interval = f"{fact.percent} % ({fact.low_percent}..{fact.high_percent})"
        samples = counted(fact.samples, "sample")
        yield f"{counted(fact.gpus, 'GPU')}: {interval} longer on the worst links, {samples}"
    for beside in facts.neighbours:
        interval = f"{beside.percent} % ({beside.low_percent}..{beside.high_percent})"
        yield f"beside {beside.workload} (same {beside.scope.lower()}): {interval} longer"
    for shared in facts.sharing:
        others = " and ".join(shared.beside)
        yield f"on one GPU with {others}: {shared.speed_permille / 10:g} % of the speed alone"
    for seen in facts.communication:
        yield f"{counted(seen.gpus, 'GPU')}: {'; '.join(_communication(seen))}"
    for load in facts.load:
        yield f"{counted(load.gpus, 'GPU')}: {'; '.join(_load(load))}"


def _communication(fact: CommunicationFact) -> Iterator[str]:
    sent = f"{format_number(fact.bytes_per_step / 1e9)} GB per step and GPU"
    yield f"{sent} ({fact.source}, {counted(fact.samples, 'sample')})"
    if fact.pattern == "Unknown":
        yield "pattern unknown"
    else:
        share = f"{fact.confidence_permille // 10} % of {counted(fact.windows, 'window')}"
        yield f"pattern {fact.pattern}, seen in {share}"
    if fact.share_high_percent is not None:
        yield f"at most {fact.share_high_percent} % of a step"
    if fact.slowdown_high_percent is not None:
        yield f"at most {fact.slowdown_high_percent} % longer on the worst links"


def _load(fact: LoadFact) -> Iterator[str]:
    occupancy = f"occupancy {format_number(fact.occupancy_us / 1000)} ms per step"
    yield f"{occupancy} ({fact.source}, {counted(fact.samples, 'sample')})"
    if fact.dram_us is not None:
        yield f"memory {format_number(fact.dram_us / 1000)} ms per step"


def _curves(facts: WorkloadFacts) -> Iterator[Curve]:
    for fact in facts.cpus:
        points = [
            _point(it.milli_cpu / 1000, it.micro_steps_per_second, it.ci_permille)
            for it in fact.points
        ]
        demand = fact.demand_milli_cpu
        text = f"; enough: {counted(demand / 1000, 'CPU')}" if demand else ""
        yield _curve(f"steps/s by CPUs with {counted(fact.gpus, 'GPU')}{text}", points)
    scaling = [
        _point(it.gpus, it.micro_steps_per_second, it.ci_permille, extrapolated=it.extrapolated)
        for it in facts.scaling
    ]
    if scaling:
        yield _curve("steps/s by number of GPUs; hollow: extrapolated", scaling)


def _point(x: float, micro_rate: int, ci_permille: int, *, extrapolated: bool = False) -> RatePoint:
    rate = micro_rate / 1e6
    return RatePoint(x, rate, rate * ci_permille / 1000, extrapolated)


def _curve(caption: str, points: Sequence[RatePoint]) -> Curve:
    return Curve(caption, draw_curve(caption, sorted(points, key=lambda point: point.x)))


def draw_curve(caption: str, points: Sequence[RatePoint]) -> Markup:
    """Return an SVG picture of a curve from (0, 0); the caption is its name."""
    ticks_x = ticks(max((point.x for point in points), default=1))
    ticks_y = ticks(max((point.rate + point.half for point in points), default=1))

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + x / ticks_x[-1] * (_WIDTH - _LEFT - _RIGHT)
        return across, _HEIGHT - _BOTTOM - y / ticks_y[-1] * (_HEIGHT - _BOTTOM - _TOP)

    name = escape(str(clean(caption)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{name}"'
        f' font-size="11" font-family="Helvetica, Arial, sans-serif" fill="{_INK}">'
    )
    parts = [
        head,
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_axes(place, ticks_x, ticks_y),
        _line([place(point.x, point.rate) for point in points]),
        *(_mark(place, point) for point in points),
        "</svg>",
    ]
    return Markup("\n".join(parts))  # noqa: S704 - numbers, and a name that is escaped


def ticks(most: float) -> list[float]:
    """Return round numbers at equal distances, from 0 to at least ``most``; at most 6.

    >>> ticks(12.6), ticks(8), ticks(0.3)
    ([0.0, 5.0, 10.0, 15.0], [0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.1, 0.2, 0.3])
    """
    most = most or 1.0
    power = 10.0 ** math.floor(math.log10(most / _MOST_STEPS))
    step = next(it * power for it in (1, 2, 5, 10, 20) if most <= _MOST_STEPS * it * power)
    steps = math.ceil(round(most / step, 6))
    return [round(number * step, 9) for number in range(steps + 1)]


def _axes(place: Place, ticks_x: Sequence[float], ticks_y: Sequence[float]) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in ticks_y:
        _, y = place(0, value)
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="{_GRID}"/>'
        text = format_number(value)
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for value in ticks_x:
        x, _ = place(value, 0)
        yield f'<path d="M{x:.1f} {bottom}v4" stroke="{_INK}"/>'
        text = format_number(value)
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>'
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="{_INK}"/>'


def _line(places: Sequence[tuple[float, float]]) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{text}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>'


def _mark(place: Place, point: RatePoint) -> str:
    x, y = place(point.x, point.rate)
    _, low = place(point.x, max(0.0, point.rate - point.half))
    _, high = place(point.x, point.rate + point.half)
    fill = "white" if point.extrapolated else _COLOUR
    title = f"{format_number(point.x)}: {format_number(point.rate)} steps/s"
    return (
        f'<g><title>{title}</title><path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{_COLOUR}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{_COLOUR}"/></g>'
    )
