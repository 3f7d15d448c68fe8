"""Derives all facts about a workload from its samples."""

from collections.abc import Iterable

from gputopo.api.profile import Sample, WorkloadFacts
from gputopo.profiles.communication import communication_facts
from gputopo.profiles.cpus import cpu_facts
from gputopo.profiles.links import link_facts
from gputopo.profiles.loads import load_facts
from gputopo.profiles.neighbours import neighbour_facts
from gputopo.profiles.ratefit import rate_fits
from gputopo.profiles.retention import current
from gputopo.profiles.scaling import scaling_facts
from gputopo.profiles.shared import alone_on_gpu, gpu_facts


def workload_facts(samples: Iterable[Sample]) -> WorkloadFacts | None:
    """Return the facts for the GPU model and image of the newest sample; None without samples."""
    comparable = current(samples)
    if not comparable:
        return None
    used = alone_on_gpu(comparable)
    cpus = cpu_facts(used)
    demands = {fact.gpus: fact.demand_milli_cpu for fact in cpus}
    fits = rate_fits(used, demands)
    on_gpu = gpu_facts(comparable)
    return WorkloadFacts(
        gpu_model=comparable[-1].gpu_model,
        image_digest=comparable[-1].image_digest,
        links=link_facts(fits),
        cpus=cpus,
        neighbours=neighbour_facts(fits),
        scaling=scaling_facts(fits),
        communication=communication_facts(used, demands),
        load=load_facts(used),
        alone=on_gpu.alone,
        sharing=on_gpu.beside,
    )
