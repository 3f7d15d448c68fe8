"""The topology that a node of the cluster has published, and which of its GPUs are in use."""

import json
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from gputopo.api.names import GROUP, VERSION
from gputopo.api.v1alpha1 import GPUTopologyStatus, ObservedGpu
from gputopo.cli.errors import InputError, shown
from gputopo.cli.source import Source
from gputopo.topology.load import decoded
from gputopo.topology.model import GpuUuid
from gputopo.topology.refusal import refused

if TYPE_CHECKING:
    from kubernetes.client import ApiException

_PLURAL: Final = "gputopologies"
_TIMEOUT_SECONDS: Final = 10
_NOT_FOUND: Final = 404


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


def _source(name: str, document: dict[str, Any]) -> Source:
    topology = decoded(document, f"node/{name}")
    try:
        status = GPUTopologyStatus.model_validate(document.get("status") or {})
    except ValidationError as error:
        raise refused(error, prefix=f"node/{name}: status") from None
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


def _read(name: str, context: str | None) -> dict[str, Any]:
    from kubernetes import client
    from kubernetes.config import ConfigException, load_kube_config
    from urllib3.exceptions import HTTPError

    configuration = client.Configuration()
    configuration.retries = False
    try:
        load: Any = load_kube_config
        # The client looks at the environment only when it is first imported.
        file = os.environ.get("KUBECONFIG")
        load(config_file=file, context=context, client_configuration=configuration)
        with client.ApiClient(configuration) as connection:
            objects: Any = client.CustomObjectsApi(connection)
            document: dict[str, Any] = objects.get_cluster_custom_object(
                GROUP, VERSION, _PLURAL, name, _request_timeout=_TIMEOUT_SECONDS
            )
    except ConfigException as error:
        raise InputError(f"kubeconfig: {_first_line(error)}") from None
    except client.ApiException as error:
        raise InputError(f"node: {shown(name)}: {said(error)}") from None
    except (HTTPError, OSError) as error:
        raise InputError(f"cluster: {configuration.host} {_first_line(error)}") from None
    return document


def said(error: "ApiException") -> str:
    """Return what the API server said of a request that it refused."""
    if error.status == _NOT_FOUND:
        return "the cluster has no GPUTopology of this name"
    try:
        said = json.loads(error.body or "")["message"]
    except (TypeError, ValueError, KeyError):
        said = None
    return str(said or f"the cluster answered {error.status} {error.reason}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
