"""Read a GPUEnsemble from a cluster and write its state (``gputopo ensemble status``)."""

from collections.abc import Iterator

from pydantic import ValidationError
from rich.console import RenderableType
from rich.text import Text

from gputopo.api.ensemble import EnsembleMemberStatus, GPUEnsembleStatus
from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.messages import first_error, quoted
from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import suggest
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.pending import duration
from gputopo_kube.errors import NotFoundError
from gputopo_kube.sync import SyncApi

_MICRO = 1e6
_ENDED = ("Succeeded", "Failed")


def write_status(name: str, namespace: str, context: str | None, form: str) -> None:
    """Write the plan of an ensemble, its members and what they wait for."""
    with connect(context) as cluster:
        raw = _find(cluster, name, namespace)
    try:
        status = GPUEnsembleStatus.model_validate(raw.get("status") or {})
    except ValidationError as error:
        text = first_error(error, prefix="status")
        raise InputError(f"GPUEnsemble {namespace}/{name}: {text}") from None
    if form == "json":
        output.write_json({"namespace": namespace, "name": name, **status.to_json()})
    else:
        output.show(_lines(f"{namespace}/{name}", status))


def _find(cluster: SyncApi, name: str, namespace: str) -> dict[str, object]:
    path = ("apis", GROUP, VERSION, "namespaces", namespace, "gpuensembles")
    found: dict[str, object] | None = cluster.find(*path, name)
    if found is not None:
        return found
    try:
        names = [each["metadata"]["name"] for each in cluster.list(*path)]
    except NotFoundError as error:
        raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
    hint = suggest(name, names) or "; use --namespace for another namespace"
    raise InputError(f"name: {quoted(name)} is not a GPUEnsemble in namespace {namespace}{hint}")


def _lines(title: str, status: GPUEnsembleStatus) -> Iterator[RenderableType]:
    spread = "" if status.spread_percent is None else f", spread {status.spread_percent} %"
    head = f"{title}: {status.phase or 'Pending'}, {status.progress or 'no plan yet'}"
    yield Text(output.one_line(f"{head}, {status.gpus} GPUs{spread}"))
    if status.plan is not None:
        end = "" if status.phase in _ENDED else f"; {_end(status.plan.seconds)}"
        yield Text(output.one_line(f"plan of {status.plan.time}: {status.plan.reason}{end}"))
    preprocessor = status.preprocessor
    if preprocessor is not None:
        demand = output.format_number(preprocessor.demand / _MICRO)
        text = f"preprocessor {preprocessor.job}: {preprocessor.cores} CPUs for {demand} items/s"
        yield Text(output.one_line("; ".join(filter(None, (text, preprocessor.message)))))
    for condition in status.conditions:
        if condition.message and condition.type in {"Planned", "RatesKnown", "Limited", "Failed"}:
            state = f"{condition.type} {condition.status}: {condition.message}"
            yield Text(output.one_line(state))
    if status.members:
        yield Text()
        columns = ("MEMBER", "PHASE", "FLOTILLA>", "GPUS>", "NODE", "PLANNED>", "MEASURED>")
        rows = map(_row, status.members)
        yield output.table(*columns, "DONE>", "WAITS FOR", rows=rows)
        yield Text()
        yield Text("PLANNED and MEASURED are in items per second")


def _end(seconds: int | None) -> str:
    return "its end is unknown" if seconds is None else f"ends {duration(seconds)} later"


def _row(member: EnsembleMemberStatus) -> tuple[str, ...]:
    done = "-" if member.progress_percent is None else f"{member.progress_percent} %"
    return (
        member.name,
        member.phase,
        str(member.flotilla or "-"),
        str(member.gpus or "-"),
        member.node or "-",
        _rate(member.planned),
        _rate(member.measured),
        done,
        output.one_line(member.message or member.limited or "-"),
    )


def _rate(micro: int | None) -> str:
    return "-" if micro is None else output.format_number(round(micro / _MICRO, 1))
