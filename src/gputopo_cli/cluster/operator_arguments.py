"""Read the settings of the installed operator from the arguments of its containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from gputopo_cli.cluster.doctor.installed import OURS, containers
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi

_OPERATOR: Final = f"{OURS},app.kubernetes.io/component=operator"


@dataclass(frozen=True, slots=True)
class OperatorArguments:
    """The arguments of the operator.

    Attributes:
        values: values by flag, without ``--``.
        unknown: why the arguments are unknown; empty if they are known.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""


def read_operator_arguments(cluster: SyncApi) -> OperatorArguments:
    """Read the Deployment of the operator.

    Raises:
        ApiError: the request failed for another reason than a missing permission.
    """
    path = ("apis", "apps", "v1", "deployments")
    try:
        return parse_operator_arguments(cluster.list(*path, selector=_OPERATOR))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return OperatorArguments(unknown=f"no permission: {error.message}")


def parse_operator_arguments(deployments: list[Document]) -> OperatorArguments:
    """Return the arguments of the containers of the operator's Deployments."""
    if not deployments:
        return OperatorArguments(unknown=f"no Deployment has the labels {_OPERATOR}")
    arguments = [
        argument.removeprefix("--").partition("=")
        for deployment in deployments
        for container in containers(deployment)
        for argument in container.get("args") or ()
    ]
    return OperatorArguments({name: value for name, _, value in arguments})
