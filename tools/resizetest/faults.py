"""One fault after another on one node: what happens to a sized pod, and what its user sees."""

from learntest.bench import Bench
from learntest.experiment import Options
from resizetest import kubeletfaults, memoryfaults, rejections
from resizetest.stage import Stage

STEPS = {
    "quota": rejections.quota,
    "limit range": rejections.limit_range,
    "other client": rejections.other_client,
    "memory held": memoryfaults.held,
    "memory cached": memoryfaults.cached,
    "killed": memoryfaults.killed,
    "static policy": kubeletfaults.static_policy,
    "shrunk": kubeletfaults.shrunk,
    "deferred": rejections.deferred,
}
"""The steps in their order. The last ones restart kubelet."""


def carry_out(bench: Bench, options: Options) -> None:
    """Carry out all steps on one node."""
    stage = Stage(bench, options.node or sorted(bench.topologies)[1])
    for name, step in STEPS.items():
        bench.report(f"{name}: {step.__doc__}")
        try:
            step(stage)
        except TimeoutError as error:
            bench.finding("not reached", f"{name}: {error}")
            stage.clear()
