"""Load the topology that the agent of a node has published, and the GPUs in use."""

from typing import Final

from pydantic import ValidationError

from gputopo.api.names import GROUP, VERSION
from gputopo.api.v1alpha1 import GPUTopologyStatus, ObservedGpu
from gputopo.runtime.messages import first_error, quoted
from gputopo.topology.model import GpuUuid
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cli.topology.loaded import LoadedTopology
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, RejectedError
from gputopo_topologies.load import parse_document

_NOT_FOUND: Final = "the cluster has no GPUTopology of this name"


def load_node(name: str, context: str | None = None) -> LoadedTopology:
    """Return the published topology of a node.

    Args:
        name: name of the node and of its GPUTopology.
        context: context of the kubeconfig; None for its current one.

    Raises:
        InputError: if the cluster cannot be read or has no such object.
        TopologyError: if the object is not a valid topology.
    """
    if not name:
        raise InputError("node: the name is empty")
    return _parse(name, _get(name, context))


def _parse(name: str, document: Document) -> LoadedTopology:
    topology = parse_document(document, f"node/{name}")
    try:
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        raise InputError(f"node/{name}: {first_error(error, prefix='status')}") from None
    in_use = {
        topology.index_of[GpuUuid(gpu.uuid)]: reason
        for gpu in status.gpus
        if (reason := _reason_not_free(gpu)) and gpu.uuid in topology.index_of
    }
    return LoadedTopology(f"node/{name}", topology, in_use)


def _reason_not_free(gpu: ObservedGpu) -> str | None:
    if not gpu.healthy:
        return "unhealthy"
    if gpu.pod_uid is None:
        return None
    return f"{gpu.namespace}/{gpu.pod}" if gpu.pod else gpu.pod_uid


def _get(name: str, context: str | None) -> Document:
    with connect(context) as cluster:
        try:
            return cluster.get("apis", GROUP, VERSION, "gputopologies", name)
        except RejectedError as error:
            reason = _NOT_FOUND if isinstance(error, NotFoundError) else error.message
            raise InputError(f"node: {quoted(name)}: {reason}") from None
