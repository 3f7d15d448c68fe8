"""What the API server of the cluster serves, for tests of features that not every version has."""

import json
import re
from dataclasses import dataclass

import pytest

from showcase.kubectl import Kubectl, KubectlError


@dataclass(frozen=True, slots=True)
class Feature:
    """A kind of object that newer API servers serve by default.

    Attributes:
        name: kind of the object.
        group_version: "apps/v1".
        since: first minor version of Kubernetes that serves it: 36 for 1.36.
    """

    name: str
    group_version: str
    since: int


MUTATING_POLICIES = Feature("MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1", 36)


def version(kubectl: Kubectl) -> str:
    """Return the version of the API server, as v1.36.4."""
    return str(json.loads(kubectl.run("get", "--raw", "/version"))["gitVersion"])


def is_served(kubectl: Kubectl, feature: Feature) -> bool:
    """Ask the API server, and check that the response is right for its version.

    Without this check, a test would be skipped on all versions if the question were wrong.
    """
    try:
        listed = json.loads(kubectl.run("get", "--raw", f"/apis/{feature.group_version}"))
    except KubectlError as error:
        if "NotFound" not in str(error):
            raise
        listed = {"resources": []}
    served = any(each["kind"] == feature.name for each in listed["resources"])
    minor = re.match(r"v1\.(\d+)\.", version(kubectl))
    assert minor, f"a version such as v1.36.4, not {version(kubectl)}"
    assert served is (int(minor[1]) >= feature.since), (
        f"Kubernetes {minor[0]} {'serves' if served else 'does not serve'} {feature}"
    )
    return served


def require(kubectl: Kubectl, feature: Feature) -> None:
    """Skip the test if the API server does not serve the feature."""
    if not is_served(kubectl, feature):
        lacking = f"does not serve {feature.name} ({feature.group_version})"
        pytest.skip(f"Kubernetes {version(kubectl)} {lacking}")


def require_none(kubectl: Kubectl, feature: Feature) -> None:
    """Skip the test if the API server serves the feature."""
    if is_served(kubectl, feature):
        pytest.skip(f"Kubernetes {version(kubectl)} serves {feature.name}")
