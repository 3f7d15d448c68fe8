"""The error classes of all simulators."""

from gputopo.errors import InvalidInputError


class SimulationError(InvalidInputError):
    """Input of a simulator was rejected; the message names the job or line, field and value."""


class JobFitsNowhereError(SimulationError):
    """A job fits on no node, even when all other jobs have ended."""
