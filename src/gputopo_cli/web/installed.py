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
            return RESOURCE, _note(f"Deployments cannot be read: {error}")
    settings = parse_installation(found)
    return settings.resource, _note(settings.assumed) if settings.assumed else ""


def _note(why: str) -> str:
    return one_line(
        f"{why}: the GPUs are assumed to be the resource {RESOURCE}; name another with --resource"
    )
