"""What the agent reports of kubelet's topology manager is checked."""

from gputopo.api.alignment import KubeletAlignment, NumaCpus
from gputopo.api.v1alpha1 import GPUTopologyStatus


def test_alignment_is_read_back_from_the_status() -> None:
    alignment = KubeletAlignment.model_validate(
        {
            "policy": "single-numa-node",
            "scope": "pod",
            "cpus": [{"numaNode": 1, "total": 4, "allocatable": 3, "free": 2}],
            "admitted": ["uid-a"],
        }
    )
    status = GPUTopologyStatus(alignment=alignment)
    assert GPUTopologyStatus.model_validate(status.to_json()).alignment == alignment
    assert alignment.cpus == [NumaCpus(numa_node=1, total=4, allocatable=3, free=2)]
