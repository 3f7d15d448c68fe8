"""Ten jobs on one node in each order of the queue: do they start as the order is defined?"""

from learntest.bench import Bench
from learntest.experiment import Options
from resizetest import queue_definition, queue_setting
from resizetest.queue_definition import ORDERS
from resizetest.queue_jobs import GPUS
from resizetest.queue_trial import Trial, carry_out_trial
from resizetest.queue_watch import QueueWatch

_TOLERANCE_SECONDS = 5.0


def carry_out(bench: Bench, options: Options) -> None:
    """Run the ten jobs in each order; kill the operator meanwhile if this is requested."""
    node, means = options.node or max(bench.topologies), list[float]()
    watch = QueueWatch(bench.client, bench.namespace, node)
    with queue_setting.restored(bench), watch:
        for order in ORDERS:
            queue_setting.set_queue(bench, order)
            trial = carry_out_trial(bench, watch, node, order, options.kills)
            _judge(bench, order, trial)
            means.append(queue_definition.mean_completion_seconds(trial.runs, trial.begin))
            relative = round(means[-1] / means[0], 2)
            bench.seen[f"{order}: mean completion, relative to {ORDERS[0]}"] = relative
    bench.seen["most GPUs of the node that pods held"] = watch.most_gpus
    if watch.most_gpus > GPUS:
        bench.finding("GPUs used twice", f"{watch.most_gpus} of {GPUS}")


def _judge(bench: Bench, order: str, trial: Trial) -> None:
    """Compare a trial with the definition.

    On a busy machine the sequence of starts may differ, because a start that is some seconds late
    finds other GPUs free. It is an error if a job started although one before it would have fitted.
    """
    seen, expected = queue_definition.names(trial.runs), queue_definition.names(trial.expected)
    bench.seen[f"{order}: started"] = seen
    bench.seen[f"{order}: by the definition"] = expected
    for what, runs in (("measured", trial.runs), ("by the definition", trial.expected)):
        mean = queue_definition.mean_completion_seconds(runs, trial.begin)
        bench.seen[f"{order}: mean completion, {what}, s"] = round(mean, 1)
    for text in queue_definition.starts_out_of_order(order, trial.runs, GPUS, _TOLERANCE_SECONDS):
        bench.finding("started out of order", f"{order}: {text}")
    if not trial.positions_agree:
        bench.finding("other positions", f"{order}: {trial.positions}")
