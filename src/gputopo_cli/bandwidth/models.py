"""Find a bandwidth model by name, or load a fitted one from its file."""

from pathlib import Path

from gputopo.bandwidth import models
from gputopo.bandwidth.fitted import parse_model
from gputopo.bandwidth.model import BandwidthModel
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.files import read_text


def find_model(argument: str | None) -> BandwidthModel | None:
    """Return the model of the name or file ``argument``, or None if ``argument`` is None.

    Raises:
        InputError: if the file cannot be read.
        ModelError: if the name is unknown, or the file does not contain a model.
    """
    if argument is None:
        return None
    if argument not in models.MODELS and ("/" in argument or Path(argument).exists()):
        return parse_model(read_text(argument, "model"), where=f"model: {quoted(argument)}")
    return models.named(argument)
