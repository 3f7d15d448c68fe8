"""Read from the cluster which extended resource counts the GPUs."""

from gputopo.api.names import RESOURCE
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.output import one_line
from gputopo_explain.objects import OURS, parse_installation
from gputopo_kube.errors import ApiError


def installed_resource(context: str | None) -> tuple[str, str]:
    """Return the resource of the installation, and a note if it is assumed; else an empty text.

    Raises:
        InputError: if the kubeconfig cannot be used.
    """
    with connect(context) as cluster:
        try:
            found = cluster.list("apis", "apps", "v1", "deployments", selector="=".join(OURS))
        except ApiError as error:
            return RESOURCE, one_line(
                f"Deployments cannot be read: {error}: the GPUs are assumed to be the resource "
                f"{RESOURCE}; name another with --resource"
            )
    return parse_installation(found).resource, ""
