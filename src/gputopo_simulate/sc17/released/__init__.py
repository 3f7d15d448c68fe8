"""The authors' released program (HiEST/gpu-topo-aware @8125c28), step by step.

Use it only to repeat the results of that program. ``docs/simulate/sc17.md`` lists where it differs
from the text of the paper.
"""
