"""Commands that read a cluster: ``who-has``, ``sizes``, ``queue`` and ``doctor``."""
