"""Simulate jobs on a cluster, from the GPUs in use now (``gputopo simulate --live``)."""

from collections.abc import Iterator
from math import isinf

from rich.console import RenderableType
from rich.text import Text

from gputopo.placement.model import PolicyName
from gputopo.topology.model import indices_of
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import to_word
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.live import note_lines, read_objects, reject_with_live
from gputopo_cli.shared.output import format_number
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.simulate.experiment import (
    describe_rules,
    load_jobs,
    load_profiles,
    make_simulator,
)
from gputopo_cli.simulate.options import LiveSimulationOptions, SimulationOptions
from gputopo_cli.simulate.simulate import result_lines
from gputopo_explain.remaining import RemainingUse, RemainingUses, gpu_list, remaining_uses
from gputopo_explain.text import counted
from gputopo_simulate.errors import JobFitsNowhereError
from gputopo_simulate.mapa.model import GpusInUse
from gputopo_simulate.mapa.report import document


def write_live_simulation(
    options: SimulationOptions,
    live: LiveSimulationOptions,
    seed: int | None,
    policy: PolicyName,
    form: str,
    output_file: str | None,
) -> None:
    """Simulate the jobs on the nodes of the cluster and write the result and the assumptions.

    Raises:
        InputError: if an option contradicts --live, no job can start on any node, or a job would
            never start.
    """
    reject_with_live(
        {
            "topology": bool(options.topology),
            "nodes": options.nodes != 1,
            "as-released": options.as_released,
        }
    )
    profiles = load_profiles(options)
    seeds = None if seed is None else (seed,)
    (jobs, *_), jobs_text = load_jobs(options, seeds, profiles or {}, "seed")
    objects = read_objects(live.context)
    state = remaining_uses(objects, live.assume_seconds)
    if not state.nodes:
        reasons = "; ".join([*state.left_out.values(), *objects.notes])
        raise InputError(f"live: no node of the cluster can run jobs: {reasons or 'no GPUs'}")
    in_use = [GpusInUse(use.node, use.gpus, use.seconds) for use in state.uses]
    simulate = make_simulator(options, None, state.nodes, profiles, in_use)
    try:
        with progress_bar() as report:
            result = simulate(jobs, policy, report)
    except JobFitsNowhereError as error:
        raise InputError(f"{error}{_end_hint(state)}") from None
    if form == "json":
        found = {**document(result), "policy": to_word(policy)}
        live_part = {**_state_document(state), "notes": [*objects.notes]}
        output.write_json({**found, "live": live_part}, output_file)
        return
    count = counted(len(state.nodes), "node")
    description = f"{jobs_text} on {count} of the cluster, {describe_rules(options)}"
    lines = [*result_lines(description, result), Text(), *_state_lines(state)]
    output.show([*lines, *note_lines(objects)], output_file)


def _end_hint(state: RemainingUses) -> str:
    if not any(use.pod and isinf(use.seconds) for use in state.uses):
        return ""
    return "; GPUs of pods without a known end are never free, unless --assume-seconds is set"


def _state_document(state: RemainingUses) -> dict[str, object]:
    """Return the start of the simulation as JSON. Later versions must keep all keys."""
    return {
        "nodes": [*state.nodes],
        "inUse": [
            {
                "node": use.node,
                "gpus": list(indices_of(use.gpus)),
                "pod": use.pod or None,
                "seconds": None if isinf(use.seconds) else use.seconds,
                "source": use.source,
            }
            for use in state.uses
        ],
        "leftOut": dict(state.left_out),
        "waitingPods": state.waiting,
    }


def _state_lines(state: RemainingUses) -> Iterator[RenderableType]:
    """Yield what the simulation assumed about the GPUs that are in use now."""
    if state.uses:
        yield Text("at the start, these GPUs are in use:")
        columns = ("NODE", "GPUS", "POD", "FREE AT>", "BY")
        yield output.table(*columns, rows=map(_use_row, state.uses))
    for node, reason in state.left_out.items():
        yield Text(f"not simulated: {node}: {output.one_line(reason)}")
    if state.waiting:
        yield Text(f"not simulated: pending pods with GPUs: {state.waiting}")


def _use_row(use: RemainingUse) -> tuple[str, ...]:
    return (
        use.node,
        gpu_list(use.gpus),
        use.pod or "-",
        "-" if isinf(use.seconds) else format_number(use.seconds),
        output.one_line(use.source),
    )
