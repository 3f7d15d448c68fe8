"""What the programs of this project share as programs.

Their settings, their log lines and how their messages show a value.

This package imports nothing else of gputopo.
"""
