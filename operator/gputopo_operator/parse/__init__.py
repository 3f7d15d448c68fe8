"""Parses API objects into the values of ``gputopo_operator.model``. No I/O."""
