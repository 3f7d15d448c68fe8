"""All experiments by name."""

from learntest import cpus, interference, links, overhead, soak
from learntest.experiment import Experiment

EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "links",
            "three jobs that differ in how much slower they are on bad links",
            links.carry_out,
        ),
        Experiment(
            "cpus",
            "one job that decodes images, measured by resizing, and at every number of CPUs",
            cpus.carry_out,
        ),
        Experiment(
            "interference",
            "three jobs that slow each other down on a socket, under Preserve and under Utility",
            interference.carry_out,
        ),
        Experiment(
            "overhead",
            "CPU and memory of the agent with 8 measured containers, and writes to the API server",
            overhead.carry_out,
        ),
        Experiment(
            "soak",
            "measured jobs come and go while agents, operator and kubelets are killed",
            soak.carry_out,
        ),
    )
}
