"""Write which shared GPUs a pod may share, as a table or as JSON."""

from collections.abc import Sequence

from rich.console import RenderableType

from gputopo_cli.shared import output
from gputopo_explain.shared_gpus import ShareOutlook


def share_document(found: ShareOutlook) -> dict[str, object]:
    """Return a shared GPU as JSON. Later versions must keep all keys."""
    return {
        "node": found.node,
        "gpu": found.gpu,
        "beside": [*found.beside],
        "allowed": found.allowed,
        "reason": found.reason,
        "summedSpeed": found.summed_speed,
        "slowdowns": [
            {"pod": each.pod, "percent": each.percent, "limitPercent": each.limit}
            for each in found.slowdowns
        ],
    }


def shares_table(found: Sequence[ShareOutlook]) -> RenderableType:
    """Return a table of the shared GPUs: whether the pod may share them, and why."""
    return output.table(
        *("SHARED GPU", "BESIDE", "MAY SHARE", "SUMMED SPEED>", "WHY"),
        rows=(
            (
                f"{each.node} {each.gpu}",
                output.one_line(", ".join(each.beside) or "-"),
                "yes" if each.allowed else "no",
                "-" if each.summed_speed is None else f"{each.summed_speed:.2f}",
                output.one_line(each.reason),
            )
            for each in found
        ),
    )
