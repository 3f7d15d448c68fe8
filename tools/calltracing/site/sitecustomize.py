"""Starts the recorder in every Python process that inherits ``PYTHONPATH``."""  # noqa: INP001

from calltracing.record import start

start()
