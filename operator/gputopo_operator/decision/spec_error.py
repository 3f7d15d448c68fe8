"""The error that the operator cannot create a pod from the spec of a GPUJob."""

from gputopo.errors import InvalidInputError


class SpecError(InvalidInputError):
    """The spec of a GPUJob contradicts itself, or uses a feature that is not yet supported.

    The message names the field, its value and the remedy.
    """
