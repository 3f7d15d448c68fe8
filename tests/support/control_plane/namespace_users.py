"""Users of a real API server: users with the rights of the role ``edit`` in one namespace."""

from support.control_plane.api_server import ApiServer, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
# The role `edit` consists of these. No controller runs here that would put them together.
EDIT = ("system:aggregate-to-view", "system:aggregate-to-edit", "gputopo-view", "gputopo-edit")
POD_SUBRESOURCES = ("status", "binding", "resize", "ephemeralcontainers")


def put_user(server: ApiServer, name: str, namespace: str) -> User:
    """Create a namespace, if it is missing, and a user who may edit it."""
    made = server.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert made.status in {201, 409}, made.message
    for role in EDIT:
        _bind(server, name, namespace, role)
    return User(name)


def add_rights(server: ApiServer, name: str, namespace: str, group: str, *resources: str) -> None:
    """Give a user all verbs on more resources of a group in a namespace."""
    role = f"{name}-{resources[0].replace('/', '-')}"
    rule = {"apiGroups": [group], "resources": [*resources], "verbs": ["*"]}
    body = {"metadata": {"name": role}, "rules": [rule]}
    made = server.create(f"{RBAC}/clusterroles", body)
    assert made.status in {201, 409}, made.message
    _bind(server, name, namespace, role)


def _bind(server: ApiServer, name: str, namespace: str, role: str) -> None:
    api = {"apiGroup": "rbac.authorization.k8s.io"}
    body = {
        "metadata": {"name": f"{name}-{role.replace(':', '-')}"},
        "roleRef": {"kind": "ClusterRole", "name": role, **api},
        "subjects": [{"kind": "User", "name": name, **api}],
    }
    made = server.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    assert made.status in {201, 409}, made.message
