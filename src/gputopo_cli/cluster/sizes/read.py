"""Read the objects of a cluster that ``gputopo sizes`` needs."""

from datetime import UTC, datetime

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.operator_arguments import read_operator_arguments
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_explain.sizes.node_sizes import NodeSizes, SizedCluster, list_sizes
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError
from gputopo_kube.sync import SyncApi


def read_sized_cluster(context: str | None) -> SizedCluster:
    """Read the objects.

    Raises:
        InputError: the cluster cannot be read, or has no gputopo.
    """
    with connect(context) as cluster:
        try:
            profiles, topologies = (
                cluster.list("apis", GROUP, VERSION, plural)
                for plural in ("gpuprofiles", "gputopologies")
            )
        except NotFoundError as error:
            raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
        return SizedCluster(
            nodes=cluster.list("api", "v1", "nodes"),
            pods=cluster.list("api", "v1", "pods"),
            profiles=profiles,
            topologies=topologies,
            settings=read_operator_arguments(cluster).values,
            now=datetime.now(UTC),
        )


def read_node_sizes(cluster: SyncApi, node: str, topology: Document | None) -> NodeSizes | None:
    """Return the sized pods of one node; None if it has none.

    Raises:
        ApiError: a request failed, for instance because of a missing permission.
    """
    objects = SizedCluster(
        nodes=[cluster.get("api", "v1", "nodes", node)],
        pods=cluster.list("api", "v1", "pods", fields=f"spec.nodeName={node}"),
        profiles=cluster.list("apis", GROUP, VERSION, "gpuprofiles"),
        topologies=[topology] if topology else [],
        settings=read_operator_arguments(cluster).values,
        now=datetime.now(UTC),
    )
    return next(iter(list_sizes(objects)), None)
