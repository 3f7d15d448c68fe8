"""What a user did wrong, from whichever layer it is told."""

from gputopo.errors import GputopoError


class InputError(GputopoError):
    """A word on the command line, or what it names, is no good: ``field: value why``.

    Not a ``ValueError``: the argument parser would wrap that in words of its own.
    """


def is_refusal(error: Exception) -> bool:
    """Return whether an error is some layer's word on bad input, rather than a fault of ours.

    Each layer has one, a ``ValueError`` whose message names field and value
    (``TopologyError``, ``PatternError``, ``ModelError``, ...). They are told by where they are
    defined: to import them all would make help wait for the engine.
    """
    ours = type(error).__module__.partition(".")[0] in {
        "gputopo",
        "gputopo_cli",
        "gputopo_simulate",
    }
    return isinstance(error, InputError) or (isinstance(error, ValueError) and ours)
