"""``gputopo sharing``: options and help texts."""

from typing import Annotated, Literal, get_args

import typer

from gputopo_cli.shared.arguments import parse_words
from gputopo_cli.shared.options import (
    OutputFile,
    PlotsOption,
    TableOrJson,
    add_command,
    new_group,
)
from gputopo_cli.sharing.options import LimitOption, MarginOption, PairsOption, SharingOptions

Policy = Literal["never", "always", "thesis", "delta", "speed", "trial", "perfect"]
Without = Literal["none", "set", "models", "families"]

app = new_group("Predict and simulate jobs that share one GPU under MPS.", status=2)


def predict(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Models of the jobs, such as ResNet-18/64; the last one is the newcomer.",
        ),
    ],
    without: Annotated[
        Without,
        typer.Option(
            metavar="|".join(get_args(Without)),
            help="What the predictor must not know: nothing, this set of models, all pairs of these"
            " models, or all pairs of their families.",
        ),
    ] = "set",
    margin: MarginOption = 1.05,
    max_slowdown: LimitOption = None,
    pairs: PairsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Predict the speeds of jobs that share a GPU, and whether they should."""
    from gputopo_cli.sharing.prediction import write_prediction

    write_prediction(models, without, margin, max_slowdown, pairs, form, output_file)


def evaluate(
    margin: MarginOption = 1.05,
    kept: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Numbers of pairs that stay measured of a model or family that is left out.",
        ),
    ] = "0",
    pairs: PairsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Leave models out of the measured pairs, and compare predictions with measurements."""
    from gputopo_cli.sharing.evaluation import write_evaluation

    write_evaluation(kept, margin, pairs, form, output_file)


def simulate(
    options: SharingOptions,
    policies: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help=f"Policies; the first is the baseline: {', '.join(get_args(Policy))}.",
        ),
    ] = ",".join(get_args(Policy)),
    plots: PlotsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Simulate jobs of one GPU under policies that share GPUs, on the same job lists."""
    from gputopo_cli.sharing.report import write_comparison

    named = parse_words(policies, "policies", get_args(Policy))
    write_comparison(options, named, plots, form, output_file)


add_command(app, "predict", predict)
add_command(app, "evaluate", evaluate)
add_command(app, "simulate", simulate)
