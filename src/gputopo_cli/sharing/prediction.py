"""Predict the speeds of a set of models and write the decision (``gputopo sharing predict``)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo.sharing.choice import SharingDecision, SharingSettings
from gputopo.sharing.decision import decide_sharing
from gputopo.sharing.model import MeasuredSharing, SharingJob
from gputopo.sharing.predictor import SetPrediction, SharingPredictor
from gputopo.sharing.speedup import slowdown_percent
from gputopo_cli.shared import output
from gputopo_cli.shared.errors import InputError
from gputopo_cli.sharing.pairs import find_model, load_pairs, short_name
from gputopo_simulate.sharing.measured import MeasuredPairs

_MAX_MODELS = 8


@dataclass(frozen=True, slots=True)
class PredictedSet:
    """A set of models with prediction, decision and measured speeds; none if not measured."""

    models: tuple[str, ...]
    prediction: SetPrediction
    decision: SharingDecision
    measured: tuple[float, ...]


def write_prediction(
    names: Sequence[str],
    without: str,
    margin: float,
    limit: int | None,
    path: str | None,
    form: str,
    output_file: str | None,
) -> None:
    """Predict the speeds of these models on one GPU, and write whether they should share it."""
    pairs = load_pairs(path)
    models = tuple(find_model(name, pairs) for name in names)
    if not 2 <= len(models) <= _MAX_MODELS:  # noqa: PLR2004 - one job shares with none
        raise InputError(f"models: {len(models)}; must be 2 to {_MAX_MODELS}")
    predictor = SharingPredictor(_facts(pairs, models, without), pairs.models.values())
    jobs = [SharingJob(short_name(name), pairs.models[name], 1, limit) for name in models]
    settings = SharingSettings(margin, max_jobs=_MAX_MODELS)
    found = PredictedSet(
        models,
        predictor.predict([job.workload for job in jobs]),
        decide_sharing(jobs[-1], jobs[:-1], predictor, settings, mps_available=True),
        _measured(pairs, models),
    )
    if form == "json":
        output.write_json(_document(found), output_file)
    else:
        output.show(_lines(found), output_file)


def _facts(pairs: MeasuredPairs, models: Sequence[str], without: str) -> list[MeasuredSharing]:
    """Return the measured pairs that the predictor may know."""
    if without == "models":
        return pairs.facts(set(models))
    if without == "families":
        families = pairs.families()
        own = {pairs.models[name].family for name in models}
        return pairs.facts({name for family in own for name in families[family]})
    own_set = tuple(sorted(models))
    return [fact for fact in pairs.facts() if without == "none" or fact.workloads != own_set]


def _measured(pairs: MeasuredPairs, models: Sequence[str]) -> tuple[float, ...]:
    if len(models) > 2 or not pairs.fits(models[0], models[1]):  # noqa: PLR2004 - only pairs
        return ()
    return pairs.speeds[models[0], models[1]], pairs.speeds[models[1], models[0]]


def _lines(found: PredictedSet) -> Iterator[RenderableType]:
    decision = found.decision
    yield Text(f"{decision.choice}: {decision.text}", "bold")
    yield Text()
    measured = [f"{speed:.3f}" for speed in found.measured] or ["-"] * len(found.models)
    rows = [
        (
            short_name(model),
            f"{speed.value:.3f}",
            f"{speed.low:.3f}..{speed.high:.3f}",
            f"{slowdown_percent(speed.value):.0f}",
            true,
            speed.source.value,
        )
        for model, speed, true in zip(found.models, found.prediction.speeds, measured, strict=True)
    ]
    columns = ("JOB", "SPEED>", "95 %", "LONGER %>", "MEASURED>", "SOURCE")
    yield output.table(*columns, rows=rows)


def _document(found: PredictedSet) -> dict[str, object]:
    decision = found.decision
    gains = {name: getattr(decision, name) for name in ("gain", "least", "most")}
    return {
        "choice": decision.choice,
        "reason": decision.reason,
        "text": decision.text,
        **{
            name: None if gain is None else {"summedSpeed": gain.summed_speed, "delta": gain.delta}
            for name, gain in gains.items()
        },
        "jobs": [
            {"model": model, **asdict(speed)}
            for model, speed in zip(found.models, found.prediction.speeds, strict=True)
        ],
        "measured": list(found.measured),
    }
