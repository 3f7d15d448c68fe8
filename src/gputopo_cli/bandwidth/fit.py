"""List bandwidth models, and fit one to measurements (``gputopo bandwidth``)."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from types import MappingProxyType
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from gputopo.bandwidth.fit import FitErrors, FitResult, fit
from gputopo.bandwidth.fitted import to_json
from gputopo.bandwidth.models import MODELS
from gputopo.bandwidth.samples import SampleError, parse_samples
from gputopo.runtime.messages import quoted
from gputopo_cli.shared import output
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_cli.topology.load import load_topology

_TERMS: Final = (
    *("x", "y", "z", "1/(x+1)", "1/(y+1)", "1/(z+1)", "xy", "yz", "zx"),
    *("1/(xy+1)", "1/(yz+1)", "1/(zx+1)", "xyz", "1/(xyz+1)"),
)  # terms of equation 2, in the order of the MAPA paper

_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "eq2": (
            "MAPA's regression on measurements of one DGX-1 V100",
            "rings of 2 to 5 GPUs; single and double NVLink 2, PCIe 3 x16",
        ),
        "physical": (
            "the narrowest cut through the links, and the ports of each GPU",
            "every node and pattern; the default where eq2 is not valid",
        ),
        "aggregate": ("the sum over the pattern's edges (MAPA, equation 1)", "everything"),
    }
)


def list_models(form: str) -> None:
    """Write name, description and domain of each bandwidth model."""
    models = [(name, *_DESCRIPTIONS[name]) for name in MODELS]
    if form == "json":
        keys = ("name", "what", "domain")
        output.write_json([dict(zip(keys, each, strict=True)) for each in models])
    else:
        output.show([output.table("MODEL", "WHAT IT IS", "WHERE IT MAY BE USED", rows=models)])


def fit_samples(samples: str, topology: str | None, form: str, output_file: str | None) -> None:
    """Fit equation 2 of the MAPA paper to samples. Write coefficients, errors and a model file."""
    measured_on = None if topology is None else load_topology(topology).topology
    text = read_text(samples, "samples")
    try:
        found = parse_samples(text, measured_on)
    except SampleError as error:
        raise InputError(f"samples: {quoted(samples)}: {error}") from None
    result = fit(found)
    if output_file is not None:
        output.write(to_json(result).rstrip(), output_file)
    if form == "json":
        output.write(to_json(result).rstrip())
    else:
        output.show(_lines(result, output_file))


def _lines(result: FitResult, output_file: str | None) -> Iterator[RenderableType]:
    sizes = ", ".join(map(str, result.sizes))
    head = f"equation 2 fitted to {result.samples} samples: {result.mixes} link mixes"
    yield Text(f"{head}, rings of {sizes} GPUs", "bold")
    links = (result.classes.double, result.classes.single, result.classes.pcie)
    for letter, link in zip("xyz", links, strict=True):
        yield Text(f"{letter}: {link or 'none in the samples'}")
    yield Text()
    coefficients = zip(_TERMS, result.coefficients, strict=True)
    rows = [(term, f"{coefficient:.3f}") for term, coefficient in coefficients]
    yield output.table("TERM", "COEFFICIENT>", rows=rows)
    yield Text()
    columns = ("ERROR", "RELATIVE>", "RMSE GB/s>", "MAE GB/s>")
    yield output.table(*columns, rows=_error_rows(result))
    for warning in result.warnings:
        yield Text(f"warning: {warning}", "yellow")
    if output_file is not None:
        yield Text(f"written to {output_file}; use it with --model {output_file}")


def _error_rows(result: FitResult) -> Iterator[tuple[str, ...]]:
    yield "on the samples", *_format_errors(result.within)
    if result.unseen is not None:
        yield f"on link mixes not seen ({result.folds} folds)", *_format_errors(result.unseen)


def _format_errors(errors: FitErrors) -> tuple[str, ...]:
    return tuple(f"{value:.4f}" for value in astuple(errors))
