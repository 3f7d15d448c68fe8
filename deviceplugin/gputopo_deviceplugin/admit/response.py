"""Builds the agent's response to Allocate: environment variables and devices. Pure functions."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from gputopo.api.names import (
    CPUS_VARIABLE,
    CUDA_VISIBLE_DEVICES,
    NUMA_NODES_VARIABLE,
    NVIDIA_VISIBLE_DEVICES,
    STEPS_DIRECTORY,
    STEPS_SOCKET,
    STEPS_SOCKET_VARIABLE,
)
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.gpus.cpulist import format_cpu_list
from gputopo_deviceplugin.kubelet.v1beta1 import api_pb2 as api

CONTROL_DEVICES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device nodes for every CUDA program. Some hosts do not have all of them."""


def device_node_response(
    uuids: Sequence[GpuUuid],
    gpus: Mapping[GpuUuid, Gpu],
    controls: Sequence[str],
    device_dir: Path,
) -> api.ContainerAllocateResponse:
    """Return a response that adds device nodes of the host's ``device_dir`` to the container.

    ``uuids`` is in rank order, because CUDA numbers devices in the order of CUDA_VISIBLE_DEVICES.
    """
    value = ",".join(uuids)
    names = (*(f"nvidia{gpus[uuid].minor}" for uuid in uuids), *controls)
    return api.ContainerAllocateResponse(
        envs={CUDA_VISIBLE_DEVICES: value, NVIDIA_VISIBLE_DEVICES: value},
        devices=[
            api.DeviceSpec(
                container_path=f"/dev/{name}", host_path=str(device_dir / name), permissions="rw"
            )
            for name in names
        ],
    )


def cdi_response(uuids: Sequence[GpuUuid], cdi_kind: str) -> api.ContainerAllocateResponse:
    """Return a response with CDI devices, which containerd or CRI-O adds to the container.

    NVIDIA_VISIBLE_DEVICES is ``void``. If the response did not set this variable, NVIDIA's runtime
    would use the value of the image, which is ``all`` in CUDA base images. If the response set it
    to UUIDs, the legacy hook of NVIDIA's runtime would add the same GPUs a second time.
    """
    return api.ContainerAllocateResponse(
        envs={CUDA_VISIBLE_DEVICES: ",".join(uuids), NVIDIA_VISIBLE_DEVICES: "void"},
        cdi_devices=[api.CDIDevice(name=f"{cdi_kind}={uuid}") for uuid in uuids],
    )


def add_steps_socket(response: api.ContainerAllocateResponse, folder: Path) -> None:
    """Mount the folder of the steps socket, and set a variable to the path of the socket."""
    response.envs[STEPS_SOCKET_VARIABLE] = f"{STEPS_DIRECTORY}/{STEPS_SOCKET}"
    response.mounts.add(container_path=STEPS_DIRECTORY, host_path=str(folder), read_only=True)


def add_locality(
    response: api.ContainerAllocateResponse, numa_nodes: Sequence[int], cpus: Collection[int]
) -> None:
    """Set variables to the NUMA nodes of the container's GPUs, and to the CPUs of these nodes.

    A variable is absent if its value is unknown: a program that binds itself to an empty list of
    CPUs would fail.
    """
    if numa_nodes:
        response.envs[NUMA_NODES_VARIABLE] = ",".join(map(str, numa_nodes))
    if cpus:
        response.envs[CPUS_VARIABLE] = format_cpu_list(cpus)
