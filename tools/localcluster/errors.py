"""The one error that a person is meant to read."""


class ClusterError(Exception):
    """Something the user can act on; its text is shown without a traceback."""
