"""Bandwidth models by name, or from the file of a fitted one."""

from pathlib import Path

from gputopo.bandwidth import models
from gputopo.bandwidth.fitted import from_document
from gputopo.bandwidth.model import BandwidthModel
from gputopo_cli.shared.files import read_text


def find(argument: str | None) -> BandwidthModel | None:
    """Return the model that a user means; None for the default of node and pattern.

    Raises:
        InputError: on a file that cannot be read.
        ModelError: on an unknown name, or a file that holds no model.
    """
    if argument is None:
        return None
    if argument not in models.MODELS and ("/" in argument or Path(argument).exists()):
        return from_document(read_text(argument, "model"))
    return models.named(argument)
