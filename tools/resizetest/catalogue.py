"""All experiments by name."""

from functools import partial

from learntest.experiment import Experiment
from resizetest import faults, four_jobs, large_job, mix, queue_order, share, soak
from resizetest.mixes import MIXES

EXPERIMENTS = {
    one.name: one
    for one in (
        *(
            Experiment(
                f"mix-{each.name}",
                f"throughput of the mix {each.name} in the mode Auto, and its prediction",
                partial(mix.carry_out, each),
            )
            for each in MIXES
        ),
        Experiment(
            "share",
            "one job in the mode Proportional gets its share of the node, without a restart",
            share.carry_out,
        ),
        Experiment(
            "four-jobs",
            "four jobs before and after Auto, a fifth one on the full node, and one that leaves",
            four_jobs.carry_out,
        ),
        Experiment(
            "faults",
            "one fault after another: quota, other client, memory, OOM kill, kubelet",
            faults.carry_out,
        ),
        Experiment(
            "soak",
            "jobs and pods come and go while operator, kubelets and API server are killed",
            soak.carry_out,
        ),
        Experiment(
            "queue",
            "ten GPUJobs on one node in each order of the queue",
            queue_order.carry_out,
        ),
        Experiment(
            "large-job",
            "a GPUJob with all GPUs of a node, beside small ones that never leave all of them free",
            large_job.carry_out,
        ),
    )
}
