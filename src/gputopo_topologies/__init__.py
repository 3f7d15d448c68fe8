"""Node topologies from a catalogue of known servers, from files and from recordings.

Only the command line, the tools and the tests use this package.
"""
