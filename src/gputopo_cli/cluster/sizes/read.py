"""Read the objects of a cluster that ``gputopo sizes`` needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.operator_arguments import OperatorArguments, read_operator_arguments
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class SizedCluster:
    """The objects of a cluster at one moment.

    Attributes:
        pods: the pods of all namespaces.
        operator: the settings of the operator.
        now: time at which the objects were read, in UTC.
    """

    nodes: Sequence[Document]
    pods: Sequence[Document]
    profiles: Sequence[Document]
    topologies: Sequence[Document]
    operator: OperatorArguments
    now: datetime


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
            operator=read_operator_arguments(cluster),
            now=datetime.now(UTC),
        )
