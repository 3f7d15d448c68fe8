"""The error that is shown to the user."""


class ClusterError(Exception):
    """Something the user can act on; its text is shown without a traceback."""
