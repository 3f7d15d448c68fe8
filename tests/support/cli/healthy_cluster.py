"""The objects of a healthy cluster with two nodes.

They have only the fields that gputopo reads. Tests on a real API server check that the fields of
real objects are the same.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version

from gputopo import catalogue
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from support.api.static import StaticApi
from support.builders import objects
from support.builders.objects import Document

PODS = "/api/v1/pods"
TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"

TOPOLOGY_OF = {
    "n1": catalogue.named("dgx1-v100", node="n1"),
    "n2": catalogue.named("pcie-8gpu", node="n2"),
}


def uuids(node: str, *indices: int) -> list[str]:
    """Return the UUIDs of some GPUs."""
    return [gpu.uuid for index in indices for gpu in TOPOLOGY_OF[node].gpus if gpu.index == index]


def users_of_gpus() -> StaticApi:
    """Return pods and topologies: two pods use four of the sixteen GPUs."""
    train = pod("train", "n1", uuids("n1", 0, 3, 2))
    serve = pod("serve", "n2", uuids("n2", 5), namespace="ml")
    return StaticApi(
        lists={
            PODS: [train, serve, pod("web", "n1", [])],
            TOPOLOGIES: [topology("n1", train), topology("n2", serve)],
        }
    )


def pod(name: str, node: str, gpus: Sequence[str], *, namespace: str = "default") -> Document:
    """Return a running pod with one container and these GPUs."""
    containers = {"main": list(gpus)} if gpus else {}
    placed = GpusAnnotation(uid=f"uid-{name}", node=node, generation=1, containers=containers)
    document = objects.pod(
        name,
        containers=[objects.container("main", str(len(gpus)))],
        namespace=namespace,
        node=node,
        phase="Running",
        annotations={GPUS_ANNOTATION: placed.dump()} if gpus else {},
    )
    scheduled = objects.condition("PodScheduled", "True", "Scheduled")
    document["status"] |= {
        "startTime": "2026-01-02T03:04:05Z",
        "conditions": [scheduled | {"lastTransitionTime": "2026-01-02T03:04:04Z"}],
    }
    return document


def topology(name: str, *users: Document) -> Document:
    """Return a GPUTopology in which these pods have their intended GPUs."""
    known = TOPOLOGY_OF[name]
    used: dict[str, Document] = {
        uuid: {
            "podUID": user["metadata"]["uid"],
            "namespace": user["metadata"]["namespace"],
            "pod": user["metadata"]["name"],
            "container": container,
        }
        for user in users
        for container, given in json.loads(user["metadata"]["annotations"][GPUS_ANNOTATION])[
            "containers"
        ].items()
        for uuid in given
    }
    document = objects.topology_object(name, known, generation=3)
    reasons = {
        "Ready": "Serving",
        "GPUsHealthy": "AllHealthy",
        "AllocationsAsPlaced": "AllAsPlaced",
    }
    document["status"]["conditions"] = [
        objects.condition(kind, "True", reason) for kind, reason in reasons.items()
    ]
    for seen in document["status"]["gpus"]:
        seen.update(used.get(seen["uuid"], {}))
    return document


NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/configmaps"
DEPLOYMENTS = "/apis/apps/v1/deployments"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VERSION = "/version"


def configz(node: str) -> str:
    """Return the path of a kubelet's configuration."""
    return f"{NODES}/{node}/proxy/configz"


CONFIGURATION: Document = {
    "percentageOfNodesToScore": 100,
    "profiles": [{"schedulerName": "gputopo"}],
    "extenders": [
        {
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "preemptVerb": "preempt",
            "httpTimeout": "5s",
            "nodeCacheCapable": True,
            "ignorable": False,
            "managedResources": [{"name": RESOURCE, "ignoredByScheduler": False}],
        }
    ],
}


def installation() -> StaticApi:
    """Return all objects that ``gputopo doctor`` reads."""
    api = users_of_gpus()
    api.lists[PODS] += [
        _pod_of("scheduler", "n1", "kube-scheduler"),
        _pod_of("deviceplugin", "n1", "deviceplugin"),
        _pod_of("deviceplugin", "n2", "deviceplugin"),
    ]
    api.lists |= {
        NODES: [_node("n1"), _node("n2")],
        CONFIG_MAPS: [
            {
                "metadata": {
                    **_metadata("scheduler", "gputopo-scheduler"),
                    "managedFields": [{"time": "2026-01-01T00:00:00Z"}],
                },
                "data": {"config.yaml": json.dumps(CONFIGURATION)},
            }
        ],
        DEPLOYMENTS: [_operator(), _scheduler()],
        DAEMON_SETS: [_agents()],
        POLICIES: [
            {
                "metadata": _metadata("policies", f"gputopo-{part}"),
                "spec": {"failurePolicy": "Fail"},
            }
            for part in (
                *("own-leases", "own-topology", "pod-fields", "scheduler-name"),
                *("environment", "measured-pods", "operator-fields", "own-dry-runs"),
            )
        ],
    }
    api.lists[BINDINGS] = [
        {
            "metadata": policy["metadata"],
            "spec": {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]},
        }
        for policy in api.lists[POLICIES]
    ]
    api.objects = {
        VERSION: {"gitVersion": "v1.36.2"},
        **{
            configz(name): {"kubeletconfig": {"topologyManagerPolicy": "none"}}
            for name in TOPOLOGY_OF
        },
        **{
            f"{DEFINITIONS}/{name}.gputopo.io": _definition(name)
            for name in ("gpuensembles", "gpujobs", "gpuprofiles", "gputopologies")
        },
    }
    return api


def _metadata(component: str, name: str) -> Document:
    return {
        "name": name,
        "namespace": "gputopo-system",
        "uid": f"uid-{name}",
        "labels": {
            "app.kubernetes.io/part-of": "gputopo",
            "app.kubernetes.io/instance": "gputopo",
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/version": version("gputopo"),
        },
    }


def _workload(component: str, status: Document, *containers: Document) -> Document:
    return {
        "metadata": _metadata(component, f"gputopo-{component}"),
        "spec": {"replicas": 1, "template": {"spec": {"containers": list(containers)}}},
        "status": status,
    }


def _operator() -> Document:
    container = {
        "name": "operator",
        "image": f"registry.example:5000/gputopo-operator:v{version('gputopo')}",
        "args": [f"--resource={RESOURCE}", "--scheduler-name=gputopo"],
    }
    return _workload("operator", {"readyReplicas": 1}, container)


def _scheduler() -> Document:
    extender = {
        "name": "extender",
        "image": "localhost/gputopo-extender:d3adb33f",
        "restartPolicy": "Always",
    }
    scheduler = {
        "name": "kube-scheduler",
        "image": "registry.k8s.io/kube-scheduler:v1.36.2",
        "command": ["kube-scheduler", "--config=/etc/kube-scheduler/config.yaml"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/kube-scheduler"}],
    }
    document = _workload("scheduler", {"readyReplicas": 1}, scheduler)
    document["spec"]["template"]["spec"] |= {
        "initContainers": [extender],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "gputopo-scheduler"}},
        ],
    }
    return document


def _agents() -> Document:
    container = {
        "name": "deviceplugin",
        "image": "localhost/gputopo-deviceplugin@sha256:0a1b",
        "args": [f"--resource={RESOURCE}", "--competing-resources=nvidia.com/gpu,nvidia.com/mig-*"],
    }
    status = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2}
    return _workload("deviceplugin", status, container)


def _pod_of(component: str, node: str, container: str) -> Document:
    """Return a pod of the installation."""
    return {
        "metadata": _metadata(component, f"gputopo-{component}-{node}"),
        "spec": {"nodeName": node, "containers": [{"name": container}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": container, "state": {"running": {"startedAt": "2026-01-02T00:00:00Z"}}}
            ],
        },
    }


def _node(name: str) -> Document:
    gpus = {"cpu": "32", RESOURCE: str(len(TOPOLOGY_OF[name].gpus)), "nvidia.com/gpu": "0"}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": gpus,
            "allocatable": dict(gpus),
        },
    }


def _definition(name: str) -> Document:
    return {
        "metadata": {"name": f"{name}.gputopo.io"},
        "spec": {"versions": [{"name": "v1alpha1", "served": True, "storage": True}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
