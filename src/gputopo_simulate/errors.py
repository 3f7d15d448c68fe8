"""The error of both simulators."""

from gputopo.errors import InvalidInputError


class SimulationError(InvalidInputError):
    """Jobs, nodes or settings that cannot be simulated; names the job, the field and the value."""
