"""The utility of a placement as text and as a JSON document."""

from collections.abc import Iterator

from rich.console import RenderableType

from gputopo.api.utility import as_number
from gputopo_cli.shared import output
from gputopo_explain.placed.terms import BesideJob, UtilityExplanation, UtilityTerm


def utility_lines(found: UtilityExplanation) -> Iterator[RenderableType]:
    """Yield a table with the terms, the utility and the jobs beside the pod."""
    yield output.table("TERM", "WEIGHT>", "CHOSEN>", "NEXT BEST>", "COST", rows=_rows(found))


def _rows(found: UtilityExplanation) -> Iterator[tuple[str, ...]]:
    for term in found.terms:
        weight = f"{term.weight_percent} %"
        yield term.name, weight, as_number(term.chosen), _optional(term.next_best), term.cost
        if term.name == "interference":
            for job in found.beside:
                yield "", "", "", "", output.one_line(f"beside {job}")
    least = "" if found.minimum_percent is None else f", at least {found.minimum_percent / 100:g}"
    for_job = f"for the job {as_number(found.for_job)}{least}"
    yield "utility", "", as_number(found.chosen), _optional(found.next_best), for_job


def _optional(permille: int | None) -> str:
    return "-" if permille is None else as_number(permille)


def utility_document(found: UtilityExplanation) -> dict[str, object]:
    """Return the explanation as JSON. Later versions must keep all keys."""
    return {
        "utilityPermille": found.chosen,
        "nextBestPermille": found.next_best,
        "jobUtilityPermille": found.for_job,
        "minimumPercent": found.minimum_percent,
        "terms": [_term(term) for term in found.terms],
        "beside": [_job(job) for job in found.beside],
    }


def _term(term: UtilityTerm) -> dict[str, object]:
    return {
        "name": term.name,
        "weightPercent": term.weight_percent,
        "permille": term.chosen,
        "nextBestPermille": term.next_best,
        "cost": term.cost,
    }


def _job(job: BesideJob) -> dict[str, object]:
    return {
        "workload": job.workload,
        "sameSocket": job.same_socket,
        "sufferedPercent": job.suffered,
        "sufferedFrom": job.suffered_from.value,
        "causedPercent": job.caused,
        "causedFrom": job.caused_from.value,
    }
