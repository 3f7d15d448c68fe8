"""Which patterns simulated counters show (docs/studies/counters.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from benchmarks.options import Options
from benchmarks.table import show
from benchmarks.workloads.collectives import LAYOUTS
from benchmarks.workloads.counted_job import Disturbance, Job
from benchmarks.workloads.pattern_score import (
    CLASSES,
    OTHER,
    UNKNOWN,
    PatternScore,
    drawn_jobs,
    full_mesh,
    scored,
)
from gputopo.catalogue import named

RESULTS: Final = ("right", UNKNOWN, "wrong")
ALL_SIZES: Final = range(2, 9)
LINKED: Final = "DGX-1 and Summit, every pair has NVLinks"
NOT_LINKED: Final = "DGX-1 and Summit, some pairs have no NVLink"
NO_PAIRS: Final = "NVSwitch (dgx-a100) and PCIe (pcie-8gpu)"
MESHES: Final = "Meshes of 4 to 8 GPUs, every pair has NVLinks"

DISTURBANCES: Final = (
    (0, 0),
    (0.1, 0.08),
    (0.1, 0.15),
    (0.1, 0.3),
    (0.1, 0.5),
    (0.2, 0.08),
    (0.3, 0.08),
    (0.3, 0.3),
)
"""Noise and stray traffic; with 0.1 and 0.08 as in the other tables."""

_REAL: Final = 4
"""The largest server in which every pair has NVLinks."""

_QUICK_SIZES: Final = (2, 4)
_COUNT: Final = 25
"""Jobs of each layout, size and server."""


def groups(count: int, seed: int, sizes: Sequence[int] = ALL_SIZES) -> Mapping[str, Iterable[Job]]:
    """Return the jobs of each table: ``count`` of each layout, size and server, or a fifth."""
    servers = [named(name) for name in ("dgx1-v100", "summit")]
    few = max(1, count // 5)

    def jobs(*, linked: bool, each: int) -> Iterator[Job]:
        parts = (drawn_jobs(one, sizes, each, seed, linked=linked) for one in servers)
        return chain.from_iterable(parts)

    others = [named(name) for name in ("dgx-a100", "pcie-8gpu")]
    meshes = [named("hgx-h100-4gpu"), *(full_mesh(size, seed) for size in sizes if size > _REAL)]
    return {
        LINKED: jobs(linked=True, each=count),
        NOT_LINKED: jobs(linked=False, each=few),
        NO_PAIRS: chain.from_iterable(
            drawn_jobs(one, sizes, few, seed, linked=None) for one in others
        ),
        MESHES: chain.from_iterable(
            drawn_jobs(one, [len(one.gpus)], few, seed, linked=True) for one in meshes
        ),
    }


def run(options: Options) -> None:
    """Simulate jobs and print which patterns their counters show."""
    count, sizes = (1, _QUICK_SIZES) if options.quick else (_COUNT, ALL_SIZES)
    for title, jobs in groups(count, options.seed, sizes).items():
        score = scored(jobs)
        _show_classes(title, score)
        _show_layouts(title, score)
    _show_disturbances(max(1, count // 5), options.seed, sizes)


def disturbed(count: int, seed: int, sizes: Sequence[int], how: Disturbance) -> Iterator[Job]:
    """Yield jobs on sets in which every pair has NVLinks."""
    small = [size for size in sizes if size <= _REAL]
    servers = [(named("dgx1-v100"), small)]
    servers += [(full_mesh(size, seed), [size]) for size in sizes if size > _REAL]
    for server, each in servers:
        yield from drawn_jobs(server, each, count, seed, linked=True, disturbance=how)


def _show_disturbances(count: int, seed: int, sizes: Sequence[int]) -> None:
    rows = []
    for noise, stray in DISTURBANCES:
        score = scored(disturbed(count, seed, sizes, Disturbance(noise, stray)))
        shares = (f"{score.percent(result):.1f}" for result in RESULTS)
        rows.append([f"{100 * noise:.0f} %", f"{100 * stray:.0f} %", *shares])
    show("DGX-1 and meshes by noise and stray traffic, percent", ["noise", "stray", *RESULTS], rows)


def _show_classes(title: str, score: PatternScore) -> None:
    reported = [*CLASSES, UNKNOWN]
    rows = [
        [truth, *(str(score.classes[truth, each] or "-") for each in reported)]
        for truth in (*CLASSES, OTHER)
    ]
    show(f"{title}: jobs by graph (rows) and reported class (columns)", ["graph", *reported], rows)


def _show_layouts(title: str, score: PatternScore) -> None:
    rows = [
        [each or "all", *(f"{score.percent(result, each):.1f}" for result in RESULTS)]
        for each in (*LAYOUTS, None)
    ]
    show(f"{title}: results by traffic of the job, percent", ["traffic", *RESULTS], rows)
    low, high = (f"{100 * error:+.1f}" for error in (min(score.errors), max(score.errors)))
    print(f"Bytes per step: error from {low} to {high} %. Unknown, because: {_reasons(score)}")


def _reasons(score: PatternScore) -> str:
    return ", ".join(f"{reason} ({n})" for reason, n in score.reasons.most_common()) or "-"
