"""All experiments by name."""

from learntest.experiment import Experiment
from resizetest import share

EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "share",
            "one job in the mode Proportional gets its share of the node, without a restart",
            share.carry_out,
        ),
    )
}
