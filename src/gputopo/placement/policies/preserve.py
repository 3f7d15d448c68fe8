"""Preserve: good links for those who need them, kept whole by those who do not.

MAPA, algorithm 1, as meant: every set is scored by its best embedding, and one on
offer is always taken. (The authors' program compares orders of one set, and leaves a
job waiting that no set gives more than an empty match's 12.34 GB/s.)
"""

from gputopo.placement.options import Keys, Options


def keys(options: Options) -> Keys:
    """Return what a sensitive job gets, then what is left; else what is left, then what it gets.

    What a sensitive job gets is effective bandwidth; for another the aggregate is enough.
    """
    if options.request.sensitive:
        return options.effective_mb_per_s, options.preserved_mb_per_s
    return options.preserved_mb_per_s, options.aggregate_mb_per_s
