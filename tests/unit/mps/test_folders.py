"""The folders of one GPU, and what the component knows of its pods."""

import json
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION, RESOURCE, SHARING_MEMORY_ANNOTATION
from gputopo.api.shares import share_resource
from gputopo_mps.folders import GpuFolders, SharedMemory
from gputopo_mps.mounts import DEV_SHM
from gputopo_mps.pods import parse_sharing_pod
from gputopo_mps.settings import MpsSettings
from support.mps.world import NODE, pod_uid, sharing_pod

MEMORY = SharedMemory("1m", 9)


def test_the_daemon_of_an_earlier_release_keeps_the_folder_of_all_gpus(tmp_path: Path) -> None:
    folders = GpuFolders("GPU-1", tmp_path / "gpus/GPU-1", MEMORY)
    assert folders.shm == tmp_path / "gpus/GPU-1/shm"
    folders.pipe.mkdir(parents=True)
    assert folders.shm == tmp_path / "shm"
    folders.create()
    assert folders.shm == tmp_path / "shm", "its containers have this folder"
    (folders.pipe / "folder/of/pod").mkdir(parents=True)
    folders.remove()
    assert not folders.root.exists()


def test_the_folder_of_an_interrupted_start_is_removed(tmp_path: Path) -> None:
    folders = GpuFolders("GPU-1", tmp_path / "gpus/GPU-1", MEMORY)
    folders.root.mkdir(parents=True)
    folders.remove()
    assert not folders.root.exists()


def test_without_a_size_the_shared_memory_is_that_of_the_component(tmp_path: Path) -> None:
    assert MpsSettings(node="n1").shared_memory is None
    assert GpuFolders("GPU-1", tmp_path).shm == DEV_SHM


@pytest.mark.parametrize(
    ("changed", "gpus"),
    [
        ({}, {"GPU-1"}),
        ({"uid": "other"}, set()),
        ({"v": 2}, set()),
    ],
)
def test_only_its_own_valid_annotation_shows_the_gpu_of_a_pod(
    changed: dict[str, Any], gpus: set[str]
) -> None:
    chosen = {"v": 1, "uid": pod_uid("a"), "node": NODE, "generation": 1}
    chosen |= {"containers": {"main": ["GPU-1::2"]}} | changed
    annotations = {GPUS_ANNOTATION: json.dumps(chosen), SHARING_MEMORY_ANNOTATION: "much"}
    found = parse_sharing_pod(sharing_pod("a", annotations=annotations), share_resource(RESOURCE))
    assert found is not None
    assert found.gpus == gpus
    assert found.memory_bytes is None
