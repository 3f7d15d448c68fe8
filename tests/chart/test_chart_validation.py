"""Values that cannot work together are rejected, and the message has a remedy."""

from typing import Any

import pytest

from support.helm_chart import CHART, Helm, HelmError

CANNOT_WORK: dict[str, tuple[dict[str, Any], str, str]] = {
    # values, what the message names, its remedy
    "two schedulers with the name of the cluster's": (
        {"schedulerName": "default-scheduler"},
        "schedulerName: default-scheduler",
        "set scheduler.replicas=0",
    ),
    "a lease that ends while its leader still leads": (
        {"scheduler": {"leaderElection": {"leaseSeconds": 6}}},
        "leaseSeconds: 6 is not greater than renewSeconds (6)",
        "increase leaseSeconds",
    ),
    "a leader that cannot try twice": (
        {"scheduler": {"leaderElection": {"retrySeconds": 5}}},
        "renewSeconds: 6 is not greater than 1.2 times retrySeconds (5)",
        "decrease retrySeconds",
    ),
    "a longest pause below the first": (
        {"scheduler": {"podBackoffSeconds": {"initial": 6}}},
        "podBackoffSeconds.max: 5 is less than initial (6)",
        "increase max",
    ),
    "weights with another sum than 100": (
        {"extender": {"utilityWeights": {"communication": 50}}},
        "communication 50, interference 33 and fragmentation 33 have the sum 116",
        "change one of them",
    ),
    "weights that leave nothing for the job": (
        {
            "extender": {
                "utilityWeights": {"communication": 0, "interference": 0, "fragmentation": 100}
            }
        },
        "utilityWeights.fragmentation: 100 leaves no weight",
        "increase one of the others",
    ),
    "a resource that competes with itself": (
        {"resourceName": "nvidia.com/gpu"},
        "competingResources: nvidia.com/gpu matches resourceName (nvidia.com/gpu)",
        "remove the entry",
    ),
    "a pattern that matches the resource": (
        {"devicePlugin": {"competingResources": ["amd.com/gpu", "gputopo.io/*"]}},
        "competingResources: gputopo.io/* matches resourceName (gputopo.io/gpu)",
        "remove the entry",
    ),
    "actions that the API server does not combine": (
        {"admissionPolicies": {"environmentActions": ["Deny", "Warn"]}},
        "environmentActions",
        "remove one of them",
    ),
    "metrics that are stored twice": (
        {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
        "serviceMonitor.enabled",
        "enable only one of them",
    ),
    "a page with the values of a release that did not have one": (
        {"web": {"enabled": True, "image": None, "allowedPeers": None}},
        "web.enabled: web.image or web.allowedPeers is missing",
        "upgrade with --reset-then-reuse-values",
    ),
}


@pytest.mark.parametrize(("values", "named", "remedy"), CANNOT_WORK.values(), ids=CANNOT_WORK)
def test_values_that_cannot_work_are_rejected_with_a_remedy(
    helm: Helm, values: dict[str, Any], named: str, remedy: str
) -> None:
    with pytest.raises(HelmError) as rejected:
        helm.render(values)
    assert named in str(rejected.value)
    assert remedy in str(rejected.value)


@pytest.mark.parametrize(
    "values",
    [
        {"schedulerName": "default-scheduler", "scheduler": {"replicas": 0}},
        {"scheduler": {"leaderElection": {"leaseSeconds": 7, "retrySeconds": 4}}},
        {"scheduler": {"podBackoffSeconds": {"initial": 5}}},
        {"resourceName": "nvidia.com/gpu", "devicePlugin": {"competingResources": ["nvidia.com/"]}},
        {"admissionPolicies": {"environmentActions": ["Deny", "Audit"]}},
        {"serviceMonitor": {"enabled": True}},
        {"web": {"enabled": True, "allowedPeers": []}},
        {"web": {"enabled": False, "image": None}},
    ],
    ids=str,
)
def test_values_next_to_a_limit_are_accepted(helm: Helm, values: dict[str, Any]) -> None:
    assert helm.render(values)


def test_namespace_in_which_users_create_pods_needs_consent(helm: Helm) -> None:
    with pytest.raises(HelmError, match="--namespace gputopo-system --create-namespace"):
        helm.run("template", "gputopo", str(CHART), "--kube-version=v1.36.2")
    consent = ("--set", "allowDefaultNamespace=true")
    assert helm.run("template", "gputopo", str(CHART), "--kube-version=v1.36.2", *consent)
