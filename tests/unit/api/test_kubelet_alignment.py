"""What the agent reports of kubelet's topology manager is checked."""

import pytest
from pydantic import ValidationError

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


@pytest.mark.parametrize(("allocatable", "free"), [(5, 1), (2, 3)])
def test_no_more_cpus_are_free_than_allocatable_and_no_more_allocatable_than_there_are(
    allocatable: int, free: int
) -> None:
    with pytest.raises(ValidationError, match="must not decrease"):
        NumaCpus(numa_node=0, total=4, allocatable=allocatable, free=free)
