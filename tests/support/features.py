"""What an API server serves, for tests of features that not every version of Kubernetes has."""

import re
from collections.abc import Collection
from dataclasses import dataclass


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

    @property
    def path(self) -> str:
        """Path of the list of kinds of this group and version."""
        return f"/apis/{self.group_version}"


MUTATING_POLICIES = Feature("MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1", 36)


def is_served(version: str, kinds: Collection[str], feature: Feature) -> bool:
    """Return whether the feature is served, and check that this is right for the version.

    Without this check, a test would be skipped on all versions if it looked at the wrong place.

    Args:
        version: of the API server, as v1.36.4.
        kinds: kinds of object that it serves in the group and version of the feature.
        feature: what a test needs.
    """
    minor = re.match(r"v1\.(\d+)\.", version)
    assert minor, f"a version such as v1.36.4, not {version}"
    served = feature.name in kinds
    expected = int(minor[1]) >= feature.since
    assert served is expected, (
        f"{why_skipped(version, feature, served=served)}, but the first is 1.{feature.since}"
    )
    return served


def why_skipped(version: str, feature: Feature, *, served: bool) -> str:
    """Return the reason of a test that needs a version with, or without, the feature."""
    what = "serves" if served else "does not serve"
    return f"Kubernetes {version} {what} {feature.name} ({feature.group_version})"
