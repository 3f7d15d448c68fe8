"""What tools/latency creates and prints."""

import pytest

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from latencytest import objects
from latencytest.__main__ import table


def test_kinds_with_and_without_gpus_differ_only_in_what_is_compared() -> None:
    plain, own = objects.plain_pod("a", "image"), objects.gpu_pod("a", "image")
    assert own["spec"].pop("schedulerName") == SCHEDULER_NAME
    assert own["spec"]["containers"][0].pop("resources") == {"limits": {RESOURCE: "1"}}
    assert own == plain
    job, gpu_job = objects.plain_job("a", "image"), objects.gpu_job("a", "image")
    template = job["spec"]["template"]
    assert template["spec"].pop("restartPolicy") == "Never"
    assert gpu_job["spec"] == {"gpusPerReplica": 1, "template": template}
    assert {"Pod", job["kind"], gpu_job["kind"]} == {*objects.COLLECTIONS}


@pytest.mark.parametrize(("own", "ratio"), [(1.0, "1.00"), (1.5, "1.50")])
def test_table_has_ratios_to_the_kind_without_gpus(own: float, ratio: str) -> None:
    seconds = {
        "plain pod": [1.0, 1.0, 1.0],
        "GPU pod": [own] * 3,
        "plain Job": [2.0] * 3,
        "GPUJob": [2 * own] * 3,
    }
    lines = table(seconds, {"GPU pod": [4.81, 4.9]})
    assert lines[1].split() == ["plain", "pod", "3", "1.00", "1.00"]
    assert lines[2].split()[-2:] == lines[4].split()[-2:] == [ratio, ratio]
    assert lines[-1] == "24 of GPU pod at once, until all run: 4.81 4.90 s"
