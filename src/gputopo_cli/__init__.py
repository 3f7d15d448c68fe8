"""The ``gputopo`` command, also installed as ``kubectl gputopo``."""
