"""One job in the mode Proportional gets its share of the node."""

from gputopo.api.tuning import ResourcesMode
from learntest import laws
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run
from resizetest import jobs
from resizetest.manifests import Sizing
from resizetest.recorder import recording
from showcase.kubectl import wait_for

_MILLI_CPU, _MOST_MILLI_CPU = 50, 150
_RESIZE_SECONDS = 60.0


def carry_out(bench: Bench, options: Options) -> None:
    """Start a job with a low floor; it gets all that it may have, because the node has it."""
    node = options.node or min(bench.topologies)
    run = Run("share", laws.plain_law(options.seed), node, gpus=1, milli_cpu=_MILLI_CPU)
    sizing = Sizing(ResourcesMode.PROPORTIONAL, _MOST_MILLI_CPU)
    with recording(bench.client, bench.journal, node) as recorder:
        jobs.start(bench, (run, sizing))
        started = recorder.seconds
        wait_for(
            f"the limit of {_MOST_MILLI_CPU}m is in effect",
            lambda: jobs.limits_of(bench, run.name).milli_cpu == _MOST_MILLI_CPU,
            timeout_s=_RESIZE_SECONDS,
        )
        bench.seen["seconds from running to resized"] = recorder.seconds - started
    jobs.check_restarts(bench, recorder.timeline)
    bench.end([run.name])
