"""Models of a simulation from measured GPUProfiles.

The operator sizes running pods with the same matrix
(:func:`gputopo.tuning.matrix.matrix_of_fact`). The matrix applies to any amount of memory.
"""

from gputopo.api.profile import GPUProfile
from gputopo.tuning.matrix import matrix_of_fact
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.gpuprofiles import parse_gpuprofiles, repeated_name
from gputopo_simulate.synergy.measured import MeasuredModel


def parse_learnt_models(text: str) -> dict[str, MeasuredModel]:
    """Return the profiles with a measured CPU curve as models, by name.

    ``text`` is the output of ``kubectl get gpuprofiles -o json``.

    Raises:
        SimulationError: the text is invalid, no profile has a measured CPU curve, or two profiles
            have the same name.
    """
    models: dict[str, MeasuredModel] = {}
    for where, name, profile in parse_gpuprofiles(text):
        if name in models:
            raise repeated_name(where, name)
        if (model := _model(name, profile)) is not None:
            models[name] = model
    if not models:
        raise SimulationError(
            "profiles: no GPUProfile has throughput with two CPU limits; measure the workloads"
            " with `profiling: {measure: [CPUs]}` first"
        )
    return models


def _model(name: str, profile: GPUProfile) -> MeasuredModel | None:
    facts = profile.status.facts.cpus if profile.status.facts else []
    matrices = {fact.gpus: matrix for fact in facts if (matrix := matrix_of_fact(fact)) is not None}
    if not matrices:
        return None
    # The matrix has steps per second, so a step takes 1 s with throughput 1.
    return MeasuredModel(name, 1.0, matrices, storage_mb_per_s_per_gpu=0.0, profiles=())
