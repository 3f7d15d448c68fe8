"""The account and the rights of ``helm test``, which Helm creates for the time of the test."""

from support.control_plane.api_server import ApiServer
from support.helm_chart import Object

RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/gputopo-system/serviceaccounts",
    "Role": f"{RBAC}/namespaces/gputopo-system/roles",
    "RoleBinding": f"{RBAC}/namespaces/gputopo-system/rolebindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}


def create_hooks(server: ApiServer, hooks: list[Object]) -> None:
    """Create what Helm creates before the test, without the pod."""
    for each in hooks:
        if each["kind"] in COLLECTIONS:
            response = server.create(COLLECTIONS[each["kind"]], each)
            assert response.accepted, response.message


def delete_hooks(server: ApiServer, hooks: list[Object]) -> None:
    """Delete what Helm deletes after the test."""
    for each in hooks:
        if each["kind"] in COLLECTIONS:
            server.delete(f"{COLLECTIONS[each['kind']]}/{each['metadata']['name']}")
