"""Values of the chart with which its tests render it."""

from typing import Any

EVERYTHING: dict[str, Any] = {
    "resourceName": "example.com/gpu",
    "schedulerName": "links",
    "imagePullSecrets": [{"name": "registry"}],
    "admissionPolicies": {"allowedSchedulers": ["kueue-links"]},
    "priorityLevels": {
        "scheduler": "workload-high",
        "operator": "workload-high",
        "devicePlugin": "gputopo-agents",
    },
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "kubeSchedulerTokenSecret": "kube-scheduler-metrics",
    },
    "monitoring": {"dashboards": {"enabled": True}, "rules": {"enabled": True}},
    "networkPolicy": {"enabled": True},
    "operator": {"image": {"tag": "v2"}, "podAnnotations": {"a": "b"}},
    "scheduler": {
        "image": {"repository": "localhost/kube-scheduler", "tag": "v9.9.9"},
        "extenderWeight": 7,
        "nodeSelector": {"role": "control"},
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
    },
    "extender": {
        "defaultPolicy": "TopoAware",
        "logLevel": "debug",
        "offerOneAbove": 0,
        "nominateAbove": 20,
    },
    "devicePlugin": {
        "driver": {"libraryDir": "/run/nvidia/driver/lib", "deviceDir": "/run/nvidia/driver/dev"},
        "deviceInjection": "CDI",
        "cdiKind": "example.org/gpu",
        "kubeletDir": "/data/kubelet",
        "competingResources": ["nvidia.com/gpu", "amd.com/*"],
        "competingDrivers": ["gpu.nvidia.com", "gpu.example.com"],
        "runtimeClassName": "nvidia",
        "privileged": True,
    },
    "sharing": {
        "enabled": True,
        "maxPodsPerGPU": 2,
        "unknownPairs": "Try",
        "loadCapacityPercent": {"NVIDIA A100-SXM4-80GB": 50, "Tesla V100-SXM2-16GB": 60},
    },
    "mps": {
        "image": {"tag": "v4"},
        "programDir": "/run/nvidia/driver/bin",
        "clientUser": 0,
        "sharedMemorySize": "2g",
        "sharedMemoryFiles": 1000,
        "podAnnotations": {"a": "b"},
    },
    "web": {
        "enabled": True,
        "image": {"repository": "localhost:5000/page", "tag": "v3"},
        "allowedHosts": ["gpus.example.com", "10.0.0.1"],
        "allowedPeers": [
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "login"}}},
            {"ipBlock": {"cidr": "192.0.2.0/24"}},
        ],
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
    },
}
"""Every component with other values than the defaults, and all optional objects."""

NOTHING: dict[str, Any] = {
    "crds": {"install": False},
    "rbac": {"aggregate": False},
    "admissionPolicies": {"enabled": False},
    "helmTest": {"enabled": False},
    "scheduler": {"replicas": 1, "priorityClassName": "", "tolerations": []},
    "operator": {"priorityClassName": "", "tolerations": [], "nodeSelector": None},
    "devicePlugin": {"priorityClassName": "", "tolerations": []},
}
"""No optional object."""

QUEUE_AND_SERVICES: dict[str, Any] = {
    "sharing": {"enabled": True},
    "operator": {"queue": {"order": "FTF"}},
    "serviceMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "kubeSchedulerTokenSecret": "kube-scheduler-metrics",
    },
    "devicePlugin": {
        "measuring": {"podLogs": True},
        "counters": {"dcgmExporter": "http://$(HOST_IP):9400/metrics"},
        "maxUnavailable": "25%",
    },
    "admissionPolicies": {"environmentActions": ["Warn", "Audit"]},
    "web": {"enabled": True, "allowedPeers": [], "nodeSelector": None, "resources": {}},
}
"""Alternatives that exclude others of ``EVERYTHING``."""

VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "nothing optional": NOTHING,
    "queue and services": QUEUE_AND_SERVICES,
}
