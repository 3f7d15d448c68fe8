"""Models of the simulator from exported GPUProfiles."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gputopo.api.tuning import Amounts
from gputopo.sizing.marginal import marginal
from gputopo.sizing.orders import ORDERS
from gputopo.tuning.targets import targets
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.learnt import parse_learnt_models
from gputopo_simulate.synergy.model import SimulatedCluster, TrainingJob
from gputopo_simulate.synergy.run import SynergySettings, run
from support.tuning.nodes import facts, tuned, tuned_node

IMAGES = {50: 2.0, 400: 16.0, 800: 32.0}
UNMEASURED = (
    "profiles: no GPUProfile has throughput with two CPU limits; measure the workloads with"
    " `profiling: {measure: [CPUs]}` first"
)
LANGUAGE = {25: 10.0, 400: 10.0}


def exported(**curves: Mapping[int, float]) -> str:
    """Return GPUProfiles of workloads with 2 GPUs: steps per second by CPU limit."""
    return json.dumps({"items": [_document(name, points) for name, points in curves.items()]})


def _document(name: str, points: Mapping[int, float]) -> dict[str, Any]:
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
        "status": {"facts": facts(points, gpus=2).to_json()} if points else {},
    }


def test_a_measured_rate_is_a_rate_of_the_simulation() -> None:
    models = parse_learnt_models(exported(images=IMAGES, unmeasured={}))
    assert list(models) == ["images"]
    (finished,) = run(
        SimulatedCluster(servers=1, gpus=2, cpus=0.4, memory_gb=1),
        [TrainingJob(1, models["images"], 2, 300, 1600)],
        SynergySettings(ORDERS["fifo"], marginal, runnable_only=True),
    )
    assert finished.jct_seconds == pytest.approx(1600 / 16)


def test_a_job_with_another_number_of_gpus_has_a_scaled_curve() -> None:
    model = parse_learnt_models(exported(images=IMAGES))["images"]
    assert not model.matrix(2).is_scaled
    assert model.matrix(4).is_scaled
    assert model.matrix(4).at(1.6, 1) == 32


def test_simulated_and_sized_jobs_have_the_same_speed() -> None:
    models = parse_learnt_models(exported(images=IMAGES, language=LANGUAGE))
    mix = ["images", "images", "language", "language"]
    curves = {"images": IMAGES, "language": LANGUAGE}
    finished = run(
        SimulatedCluster(servers=1, gpus=8, cpus=1.2, memory_gb=8),
        [TrainingJob(number, models[name], 2, 300, 1000) for number, name in enumerate(mix)],
        SynergySettings(ORDERS["fifo"], marginal, runnable_only=True),
    )
    simulated = {job.id: 1000 / job.jct_seconds for job in finished}
    pods = [
        tuned(str(number), 25, gpus=2, facts=facts(curves[name], gpus=2))
        for number, name in enumerate(mix)
    ]
    node = tuned_node(*pods, milli_cpu=1200, gpus=8)
    for uid, target in targets(node).items():
        rate_of_share = 12 if mix[int(uid)] == "images" else 10
        assert simulated[int(uid)] == pytest.approx(target.value * rate_of_share, rel=0.05)
        assert target.amounts <= Amounts(1200, node.allocatable.memory)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            exported(unmeasured={}),
            UNMEASURED,
        ),
        (
            json.dumps([_document("images", IMAGES), _document("images", IMAGES)]),
            "profiles: items[1].metadata.name: 'images' occurs twice; export one namespace only",
        ),
    ],
)
def test_profiles_without_curves_and_repeated_names_are_rejected(text: str, message: str) -> None:
    with pytest.raises(SimulationError) as error:
        parse_learnt_models(text)
    assert str(error.value) == message
