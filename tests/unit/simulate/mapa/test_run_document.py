import json

from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.report import document
from gputopo_simulate.mapa.run import MapaSettings, run

JOBS = [
    SimulatedJob(0, ring(2), 0, 10, sensitive=True, workload="vgg16"),
    SimulatedJob("b", ring(1), 2, 5, sensitive=False),
]
DOCUMENT = document(run({"n": named("dgx1-v100")}, JOBS, MapaSettings()))


def test_document_of_a_run_has_units_in_its_keys() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == {
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
