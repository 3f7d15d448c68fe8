"""The error class of both simulators."""

from gputopo.errors import InvalidInputError


class SimulationError(InvalidInputError):
    """Input of a simulator was rejected; the message names the job or line, field and value."""
