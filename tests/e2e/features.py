"""Skips tests of features that the API server of the cluster does not serve."""

import json

import pytest

from showcase.kubectl import Kubectl, KubectlError
from support import features
from support.features import Feature


def version(kubectl: Kubectl) -> str:
    """Return the version of the API server, as v1.36.4."""
    return str(json.loads(kubectl.run("get", "--raw", "/version"))["gitVersion"])


def is_served(kubectl: Kubectl, feature: Feature) -> bool:
    """Ask the API server, and check that the response is right for its version."""
    try:
        listed = json.loads(kubectl.run("get", "--raw", feature.path))
    except KubectlError as error:
        if "NotFound" not in str(error):
            raise
        listed = {"resources": []}
    kinds = {each["kind"] for each in listed["resources"]}
    return features.is_served(version(kubectl), kinds, feature)


def require(kubectl: Kubectl, feature: Feature) -> None:
    """Skip the test if the API server does not serve the feature."""
    if not is_served(kubectl, feature):
        pytest.skip(features.why_skipped(version(kubectl), feature, served=False))


def require_none(kubectl: Kubectl, feature: Feature) -> None:
    """Skip the test if the API server serves the feature."""
    if is_served(kubectl, feature):
        pytest.skip(features.why_skipped(version(kubectl), feature, served=True))
