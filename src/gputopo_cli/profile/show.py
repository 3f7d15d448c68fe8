"""Write GPUProfiles as text or JSON (``gputopo profile``)."""

from collections.abc import Iterator, Sequence
from itertools import chain

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.profile import GPUProfile, Sample, SharingFact, WorkloadFacts
from gputopo_cli.profile.counters import (
    COUNTER_COLUMNS,
    LOAD_COLUMNS,
    TRAFFIC_COLUMNS,
    NodeCounters,
    counter_rows,
    load_row,
    traffic_row,
)
from gputopo_cli.profile.read import NamedProfile, find_profile, read_counters, read_profiles
from gputopo_cli.shared import output
from gputopo_explain.text import counted


def write_list(namespace: str | None, context: str | None, form: str) -> None:
    """Write one line for each GPUProfile."""
    found = read_profiles(context, namespace)
    if form == "json":
        output.write_json([_document(each) for each in found])
        return
    rows = [_row(each) for each in found]
    columns = ("NAMESPACE", "NAME", "DECLARED>", "MEASURED", "DEMAND", "SAMPLES>", "LAST")
    output.show([output.table(*columns, rows=rows)] if rows else [Text("no GPUProfiles")])


def write_profile(name: str, context: str | None, plots: str | None, form: str) -> None:
    """Write one profile; draw its plots if ``plots`` is a folder."""
    found = find_profile(name, read_profiles(context))
    if plots is not None:
        from gputopo_cli.profile.plots import plot_facts

        plot_facts(str(found.key), found.profile.status, plots)
    nodes = read_counters(context)
    if form == "json":
        counters = None if nodes is None else [each.document() for each in nodes]
        output.write_json(_document(found) | {"counters": counters})
    else:
        output.show(chain(_lines(found), _counter_lines(nodes)))


def _document(found: NamedProfile) -> dict[str, object]:
    return {
        "namespace": found.key.namespace,
        "name": found.key.name,
        "spec": found.profile.spec.to_json(),
        "status": found.profile.status.to_json(),
    }


def _row(found: NamedProfile) -> tuple[str, ...]:
    profile = found.profile
    facts, samples = profile.status.facts, profile.status.samples
    return (
        found.key.namespace,
        found.key.name,
        _declared(profile),
        profile.status.summary or "-",
        _demand(facts) if facts else "-",
        str(len(samples)),
        max((sample.time for sample in samples), default="-"),
    )


def _declared(profile: GPUProfile) -> str:
    percent = profile.spec.bandwidth_sensitivity_percent
    return "-" if percent is None else f"{percent} %"


def _demand(facts: WorkloadFacts) -> str:
    """Return the CPU demand by number of GPUs, for example ``4 CPUs with 1 GPU``."""
    known = [(fact.gpus, fact.demand_milli_cpu) for fact in facts.cpus if fact.demand_milli_cpu]
    return (
        ", ".join(f"{_cpus(demand)} CPUs with {counted(gpus, 'GPU')}" for gpus, demand in known)
        or "-"
    )


def _lines(found: NamedProfile) -> Iterator[RenderableType]:
    status = found.profile.status
    yield Text(f"GPUProfile {found.key}")
    if (declared := _declared(found.profile)) != "-":
        yield Text(f"declared: {declared} longer on the worst links")
    for condition in status.conditions:
        yield Text(f"{condition.type} {condition.status}: {output.one_line(condition.message)}")
    if status.facts is not None:
        digest = status.facts.image_digest or "unknown"
        yield Text(f"GPU model {status.facts.gpu_model}, image {digest}")
        yield from _fact_tables(status.facts)
    yield Text()
    yield Text(f"{len(status.samples)} samples")
    if status.samples:
        yield _sample_table(status.samples)


def _counter_lines(nodes: Sequence[NodeCounters] | None) -> Iterator[RenderableType]:
    yield Text()
    if nodes:
        yield Text("hardware counters of the nodes")
        yield output.table(*COUNTER_COLUMNS, rows=counter_rows(nodes))
    elif nodes is None:
        yield Text(
            "hardware counters of the nodes: unknown, because GPUTopologies are not readable"
        )
    else:
        yield Text("hardware counters of the nodes: no node has a GPUTopology")


def _fact_tables(facts: WorkloadFacts) -> Iterator[RenderableType]:
    tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
        (
            "longer run time on the worst links than on the best",
            ("GPUS>", "SLOWER>", "95 % INTERVAL", "SAMPLES>", "BANDWIDTH"),
            [
                (
                    str(fact.gpus),
                    f"{fact.percent} %",
                    f"{fact.low_percent}..{fact.high_percent} %",
                    str(fact.samples),
                    fact.sensitivity,
                )
                for fact in facts.links
            ],
        ),
        (
            "throughput against CPUs",
            ("GPUS>", "CPUS>", "STEPS/S", "DEMAND>"),
            [
                (
                    str(fact.gpus),
                    _cpus(point.milli_cpu),
                    _rate(point.micro_steps_per_second, point.ci_permille),
                    _cpus(fact.demand_milli_cpu) if fact.demand_milli_cpu else "unknown",
                )
                for fact in facts.cpus
                for point in fact.points
            ],
        ),
        (
            "longer run time beside another workload",
            ("WORKLOAD", "SAME>", "SLOWER>", "95 % INTERVAL", "SAMPLES>"),
            [
                (
                    fact.workload,
                    fact.scope.lower(),
                    f"{fact.percent} %",
                    f"{fact.low_percent}..{fact.high_percent} %",
                    str(fact.samples),
                )
                for fact in facts.neighbours
            ],
        ),
        (
            "speed while other workloads share the GPU, relative to the speed alone",
            ("BESIDE", "SPEED>", "95 % INTERVAL", "SAMPLES>"),
            [
                (
                    output.one_line(", ".join(fact.beside)),
                    f"{fact.speed_permille / 10:g} %",
                    _interval(fact),
                    str(fact.samples),
                )
                for fact in facts.sharing
            ],
        ),
        (
            "throughput by number of GPUs",
            ("GPUS>", "STEPS/S", "SOURCE"),
            [
                (
                    str(fact.gpus),
                    _rate(fact.micro_steps_per_second, fact.ci_permille),
                    "extrapolated" if fact.extrapolated else "measured",
                )
                for fact in facts.scaling
            ],
        ),
        (
            "communication by hardware counters; SLOWER: on the worst links than on the best",
            TRAFFIC_COLUMNS,
            [traffic_row(fact) for fact in facts.communication],
        ),
        (
            "load of one GPU in one step by hardware counters",
            LOAD_COLUMNS,
            [load_row(fact, facts) for fact in facts.load],
        ),
    ]
    shown = [
        (Text(), Text(title), output.table(*columns, rows=rows))
        for title, columns, rows in tables
        if rows
    ]
    yield from chain.from_iterable(shown)


def _interval(fact: SharingFact) -> str:
    """Return the 95 % interval of a speed.

    >>> _interval(SharingFact(beside=["a/b"], speed_permille=800, ci_permille=50, samples=3))
    '76..84 %'
    """
    half = fact.speed_permille * fact.ci_permille / 1000
    low, high = (f"{(fact.speed_permille + sign * half) / 10:.0f}" for sign in (-1, 1))
    return f"{low}..{high} %"


def _sample_table(samples: Sequence[Sample]) -> RenderableType:
    columns = (
        *("END", "SECONDS>", "GPUS>", "GB/S>", "CPUS>", "STEPS/S"),
        *("GB/STEP>", "PATTERN", "BESIDE", "POD UID"),
    )
    return output.table(*columns, rows=[_sample_row(sample) for sample in samples])


def _sample_row(sample: Sample) -> tuple[str, ...]:
    return (
        sample.time,
        str(sample.seconds),
        str(sample.gpus),
        output.format_gb_per_s(sample.effective_mb_per_s),
        _cpus(sample.milli_cpu) if sample.milli_cpu else "no limit",
        _rate(sample.micro_steps_per_second, sample.ci_permille),
        output.format_number(sample.traffic.bytes_per_step / 1e9) if sample.traffic else "-",
        sample.traffic.pattern if sample.traffic else "-",
        _beside(sample),
        sample.pod_uid,
    )


def _beside(sample: Sample) -> str:
    """Return the workloads of the other pods of the node; those on the same GPU are marked."""
    on_gpu = [f"{name} (same GPU)" for name in sample.gpu_neighbours or ()]
    return output.one_line(", ".join([*on_gpu, *sample.node_neighbours]) or "-")


def _cpus(milli_cpu: int) -> str:
    return output.format_number(milli_cpu / 1000)


def _rate(micro_steps_per_second: int, ci_permille: int) -> str:
    """Return a rate with its 95 % interval.

    >>> _rate(12_400_000, 20)
    '12.4 ±0.248'
    """
    rate = micro_steps_per_second / 1e6
    return f"{output.format_number(rate)} ±{output.format_number(rate * ci_permille / 1000)}"
