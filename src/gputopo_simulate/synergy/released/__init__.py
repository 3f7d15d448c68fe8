"""What the authors' released simulator does (msr-fiddle/synergy, 1bb2bed), for its figures only.

Nothing here schedules anything: it keeps that program's two speeds, its first fit and its
walk past jobs that do not fit, which :mod:`gputopo.sizing` has not (``docs/synergy.md``
lists what differs from the paper's text).
"""
