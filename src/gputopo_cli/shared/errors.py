"""The error that every command raises when the user's input is wrong."""

from gputopo.errors import GputopoError


class InputError(GputopoError):
    """An argument, or the file or object that it names, is invalid.

    The message has the form ``field: value: reason``.

    It is not a ``ValueError``, because Typer would replace the message of a ``ValueError``.
    """
