"""All experiments by name."""

from learntest.experiment import Experiment
from resizetest import four_jobs, large_job, mix, queue_order, share, soak

EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "mix",
            "sum of normalised throughput of mixes of jobs, and its prediction",
            mix.carry_out,
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
