import json

from gputopo.patterns.model import ring
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.report import document
from gputopo_simulate.mapa.run import Settings, run
from gputopo_topologies.catalogue import named

JOBS = [
    SimulatedJob(0, ring(2), 0, 10, sensitive=True, workload="vgg16"),
    SimulatedJob("b", ring(1), 2, 5, sensitive=False),
]
TOLD = document(run({"n": named("dgx1-v100")}, JOBS, Settings()))


def test_a_run_is_told_as_json_with_units_in_the_keys() -> None:
    assert json.loads(json.dumps(TOLD)) == {
        "policy": "Preserve",
        "model": "default",
        "timeLaw": "fixed",
        "queueing": "fifo",
        "waiting": False,
        "makespan": 10,
        "throughput": 0.2,
        "jobs": [
            {
                "id": 0,
                "node": "n",
                "gpus": [0, 3],
                "arrival": 0,
                "start": 0,
                "end": 10,
                "aggregateBandwidthGBps": 100,
                "effectiveBandwidthGBps": 58.925,
                "model": "eq2",
                "sensitive": True,
                "workload": "vgg16",
            },
            {
                "id": "b",
                "node": "n",
                "gpus": [2],
                "arrival": 2,
                "start": 2,
                "end": 7,
                "aggregateBandwidthGBps": 0,
                "effectiveBandwidthGBps": None,
                "model": None,
                "sensitive": False,
                "workload": None,
            },
        ],
    }
