"""Write the errors of predictions and decisions (``gputopo sharing evaluate``)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from gputopo_cli.shared import output
from gputopo_cli.shared.arguments import parse_integer, parse_list
from gputopo_cli.shared.progress import progress_bar
from gputopo_cli.sharing.pairs import load_pairs
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sharing.evaluation import (
    LeftOut,
    PredictionFigures,
    RuleFigures,
    evaluate,
    rules,
)
from gputopo_simulate.sharing.measured import MeasuredPairs

_LEFT_OUT: Final[tuple[LeftOut, ...]] = ("model", "family")
_MAX_KEPT: Final = 20
_MEAN: Final = "mean"


class EvaluatedPredictor(NamedTuple):
    """Figures of one predictor with one way to leave models out."""

    left_out: LeftOut
    predictor: str
    figures: PredictionFigures


def write_evaluation(
    kept: str, margin: float, path: str | None, form: str, output_file: str | None
) -> None:
    """Evaluate the predictor on all pairs, and write its errors beside those of simple rules."""
    counts = parse_list(kept, "kept", partial(parse_integer, field="kept", most=_MAX_KEPT))
    pairs = load_pairs(path)
    with progress_bar() as report:
        evaluations = list(_evaluated(pairs, counts, margin, report))
    found = rules(pairs, margin)
    if form == "json":
        document = {
            "margin": margin,
            "rules": [_document(rule) for rule in found],
            "predictors": [
                {"leftOut": left_out, "predictor": name, **_document(figures)}
                for left_out, name, figures in evaluations
            ],
        }
        output.write_json(document, output_file)
    else:
        described = f"{sum(1 for _ in pairs.pairs())} pairs of {len(pairs.models)} models"
        output.show(_lines(f"{described}, margin {margin:g}", found, evaluations), output_file)


def _evaluated(
    pairs: MeasuredPairs, counts: Sequence[int], margin: float, report: ProgressCallback | None
) -> Iterator[EvaluatedPredictor]:
    """Yield the mean and gputopo's predictor for each way to leave models out."""
    done = 0
    for left_out in _LEFT_OUT:
        yield EvaluatedPredictor(left_out, _MEAN, evaluate(pairs, left_out, margin, by_mean=True))
        for count in counts:
            figures = evaluate(pairs, left_out, margin, kept_pairs=count)
            name = "gputopo" + f", {count} measured" * bool(count)
            yield EvaluatedPredictor(left_out, name, figures)
            done += 1
            if report:
                report(done, len(_LEFT_OUT) * len(counts))


def _document(figures: PredictionFigures | RuleFigures) -> dict[str, object]:
    """Return the figures with the keys of JSON, such as ``speedError``."""
    return {
        "".join(word.title() if place else word for place, word in enumerate(key.split("_"))): value
        for key, value in asdict(figures).items()
    }


def _lines(
    title: str, found: list[RuleFigures], evaluations: list[EvaluatedPredictor]
) -> Iterator[RenderableType]:
    yield Text(title, "bold")
    yield Text()
    rows = [(rule.rule, _percent(rule.shares), f"{rule.regret:.3f}") for rule in found]
    yield output.table("RULE", "SHARES %>", "REGRET>", rows=rows)
    yield Text()
    columns = ("LEFT OUT", "PREDICTOR", "ERROR OF SPEED>", "OF DELTA>", "IN 95 %>")
    wrong = ("WRONG BY DELTA %>", "BY SPEED %>", "REGRET BY DELTA>", "BY SPEED>")
    known = ("UNKNOWN %>", "WRONG OF KNOWN %>", "REGRET>")
    yield output.table(*columns, *wrong, *known, rows=map(_cells, evaluations))


def _cells(evaluation: EvaluatedPredictor) -> tuple[str, ...]:
    left_out, name, found = evaluation
    return (
        left_out,
        name,
        f"{found.speed_error:.3f}",
        f"{found.delta_error:.3f}",
        "-" if name == _MEAN else _percent(found.covered),  # the mean has no interval
        _percent(found.wrong_delta),
        _percent(found.wrong_speed),
        f"{found.regret_delta:.3f}",
        f"{found.regret_speed:.3f}",
        _percent(found.unknown),
        _percent(found.wrong_known),
        f"{found.regret:.3f}",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
