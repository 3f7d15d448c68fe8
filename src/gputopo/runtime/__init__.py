"""What the programs of this project share as programs: their settings and their log lines.

This package imports nothing else of gputopo.
"""
