"""The topology that a node of the cluster has published, and which of its GPUs are in use."""

from typing import Final

from pydantic import ValidationError

from gputopo.api.names import GROUP, VERSION
from gputopo.api.v1alpha1 import GPUTopologyStatus, ObservedGpu
from gputopo.runtime.messages import first_error, quoted
from gputopo.topology.model import GpuUuid
from gputopo_cli.kube import connected
from gputopo_cli.shared.errors import InputError
from gputopo_cli.topology.source import Source
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, RejectedError
from gputopo_topologies.load import parse_document

_NO_SUCH: Final = "the cluster has no GPUTopology of this name"


def node(name: str, context: str | None = None) -> Source:
    """Return what the agent of a node has published.

    Args:
        name: of the node, which is that of its GPUTopology.
        context: of the kubeconfig; its current one if None.

    Raises:
        InputError: without a kubeconfig, an answer, or such an object.
        TopologyError: where the object contradicts itself.
    """
    if not name:
        raise InputError("node: '' is no name")
    return _source(name, _read(name, context))


def _source(name: str, document: Document) -> Source:
    topology = parse_document(document, f"node/{name}")
    try:
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        raise InputError(f"node/{name}: {first_error(error, prefix='status')}") from None
    in_use = {
        topology.index_of[GpuUuid(gpu.uuid)]: reason
        for gpu in status.gpus
        if (reason := _why_not_free(gpu)) and gpu.uuid in topology.index_of
    }
    return Source(f"node/{name}", topology, in_use)


def _why_not_free(gpu: ObservedGpu) -> str | None:
    if not gpu.healthy:
        return "unhealthy"
    if gpu.pod_uid is None:
        return None
    return f"{gpu.namespace}/{gpu.pod}" if gpu.pod else gpu.pod_uid


def _read(name: str, context: str | None) -> Document:
    with connected(context) as cluster:
        try:
            return cluster.get("apis", GROUP, VERSION, "gputopologies", name)
        except RejectedError as error:
            reason = _NO_SUCH if isinstance(error, NotFoundError) else error.message
            raise InputError(f"node: {quoted(name)}: {reason}") from None
