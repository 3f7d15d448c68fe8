"""Load measured pairs, and find models by their short names."""

from importlib.resources import files

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.arguments import suggest
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_simulate.sharing.measured import MeasuredPairs, parse_pairs


def load_pairs(path: str | None) -> MeasuredPairs:
    """Return the pairs of a file, or Gavel's.

    Raises:
        InputError: if the file cannot be read.
        SimulationError: if it is not a table of pairs.
    """
    if path is not None:
        return parse_pairs(read_text(path, "pairs"))
    data = files("gputopo_simulate.sharing") / "data" / "gavel_v100_pairs.csv"
    return parse_pairs(data.read_text(encoding="utf-8"))


def short_name(model: str) -> str:
    """Return the short name of a model.

    >>> short_name("ResNet-18 (batch size 64)")
    'ResNet-18/64'
    """
    return model.replace(" (batch size ", "/").removesuffix(")")


def find_model(text: str, pairs: MeasuredPairs) -> str:
    """Return the model with this name or short name, in upper or lower case.

    Raises:
        InputError: if there is none.
    """
    known = {short_name(name).lower(): name for name in pairs.models}
    found = known.get(short_name(text.strip()).lower())
    if found is None:
        names = ", ".join(map(short_name, sorted(pairs.models)))
        near = suggest(text, list(known))
        raise InputError(f"models: {quoted(text)} was not measured{near}; known: {names}")
    return found


def find_models(text: str | None, pairs: MeasuredPairs) -> tuple[str, ...]:
    """Return the models of a list such as ``ResNet-18/16,A3C``; all without a list."""
    if text is None:
        return tuple(sorted(pairs.models))
    return tuple(find_model(part, pairs) for part in text.split(","))
