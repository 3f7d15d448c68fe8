"""The rights that the roles of the chart give to each component, by the API server."""

import pytest

from support.control_plane.api_server import ApiServer, service_account

OPERATOR = "gputopo-operator"
EXTENDER = "gputopo-extender"
AGENT = "gputopo-deviceplugin"
PAGE = "gputopo-web"

ALLOWED = {
    OPERATOR: [
        "list gputopo.io gpujobs",
        "watch gputopo.io gpujobs",
        "patch gputopo.io gpujobs/status",
        "create gputopo.io gpujobs",
        "delete gputopo.io gpujobs",
        "watch gputopo.io gpuensembles",
        "patch gputopo.io gpuensembles/status",
        "create core services",
        "list core nodes",
        "create gputopo.io gpuprofiles",
        "get gputopo.io gputopologies",
        "create batch jobs",
        "patch batch jobs",
        "get core pods",
        "watch core pods",
        "patch core pods/status",
        "patch core pods/resize",
        "get core nodes",
        "create events.k8s.io events",
    ],
    EXTENDER: [
        "list gputopo.io gputopologies",
        "watch gputopo.io gputopologies",
        "list gputopo.io gpuprofiles",
        "watch gputopo.io gpuprofiles",
        "get core pods",
        "watch core pods",
        "create core pods/binding",
        "patch core pods/status",
        "list core nodes",
        "list storage.k8s.io csinodes",
        "create events.k8s.io events",
        "create coordination.k8s.io leases",
        "update coordination.k8s.io leases gputopo-scheduler",
        "patch coordination.k8s.io leases gputopo-claims",
        "get core configmaps extension-apiserver-authentication kube-system",
    ],
    AGENT: [
        "create gputopo.io gputopologies",
        "patch gputopo.io gputopologies",
        "patch gputopo.io gputopologies/status",
        "get core nodes",
        "list core nodes",
        "watch core nodes",
        "list resource.k8s.io resourceslices",
        "watch resource.k8s.io resourceslices",
        "watch core pods",
        "create core events",
    ],
    PAGE: [
        f"{verb} {objects}"
        for verb in ("list", "watch")
        for objects in (
            "gputopo.io gputopologies",
            "gputopo.io gpujobs",
            "gputopo.io gpuprofiles",
            "core pods",
            "batch jobs",
            "apps deployments",
        )
    ],
}
FORBIDDEN = {
    OPERATOR: [
        "create core pods",
        "patch core pods",
        "update core pods",
        "patch core nodes",
        "delete batch jobs",
        "patch gputopo.io gpujobs",
        "patch gputopo.io gpuensembles",
        "delete core services",
        "patch gputopo.io gputopologies",
        "get core secrets",
        "create core pods/binding",
        "update gputopo.io gpujobs/finalizers",
    ],
    EXTENDER: [
        "get gputopo.io gputopologies",
        "patch gputopo.io gputopologies",
        "get gputopo.io gpuprofiles",
        "patch gputopo.io gpuprofiles/status",
        "patch core pods",
        "create core pods",
        "get core secrets",
        "create core bindings",
        "create coordination.k8s.io leasecandidates",
        "create coordination.k8s.io leases any default",
        "update coordination.k8s.io leases kube-scheduler kube-system",
        "list core services",
        "list apps replicasets",
        "update core pods/finalizers",
        "update core pods/status",
    ],
    AGENT: [
        "patch core nodes",
        "patch core pods",
        "delete core pods",
        "create core pods/binding",
        "delete gputopo.io gputopologies",
        "get core secrets",
        "get resource.k8s.io resourceslices",
        "delete resource.k8s.io resourceslices",
    ],
    PAGE: [
        "get core pods",
        "get core pods/log",
        "create core pods",
        "create core pods/exec",
        "patch core pods",
        "patch core pods/status",
        "create core pods/binding",
        "create gputopo.io gpujobs",
        "patch gputopo.io gpujobs",
        "patch gputopo.io gputopologies/status",
        "list core nodes",
        "list apps deployments any default",
        "list core secrets",
        "list core configmaps",
        "list coordination.k8s.io leases",
        "create core events",
    ],
}


def is_allowed(server: ApiServer, account: str, right: str) -> bool:
    verb, group, resource, *rest = right.split()
    name, namespace = [*rest, "", ""][:2]
    resource, _, subresource = resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": service_account(account).name,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": "" if group == "core" else group,
                "resource": resource,
                "subresource": subresource,
                "name": name,
                "namespace": namespace or "gputopo-system",
            },
        },
    }
    response = server.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(response.body["status"]["allowed"])


@pytest.mark.parametrize("account", ALLOWED)
def test_component_has_the_rights_that_its_code_needs(server: ApiServer, account: str) -> None:
    missing = [right for right in ALLOWED[account] if not is_allowed(server, account, right)]
    assert missing == []


@pytest.mark.parametrize("account", FORBIDDEN)
def test_component_has_no_rights_that_it_does_not_need(server: ApiServer, account: str) -> None:
    spare = [right for right in FORBIDDEN[account] if is_allowed(server, account, right)]
    assert spare == []
