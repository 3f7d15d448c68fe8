"""The base classes of all errors that gputopo raises on purpose, in every package."""


class GputopoError(Exception):
    """An error whose message is written for the user: what happened, where, and what to do."""


class InvalidInputError(GputopoError, ValueError):
    """Input was rejected; the message names the field, the value and what is allowed."""
