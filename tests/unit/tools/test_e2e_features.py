"""A test is skipped only where the API server lacks the feature and its version explains that."""

import json
from dataclasses import dataclass
from typing import cast

import pytest

import features
from showcase.kubectl import Kubectl, KubectlError
from support.features import MUTATING_POLICIES


@dataclass
class FakeKubectl:
    """Responds as the API server of a version that serves these kinds."""

    version: str
    kinds: list[str] | None

    def run(self, *words: str) -> str:
        path = words[-1]
        if path == "/version":
            return json.dumps({"gitVersion": self.version})
        if self.kinds is None:
            raise KubectlError("Error from server (NotFound): the server could not find it")
        return json.dumps({"resources": [{"kind": kind} for kind in self.kinds]})


def kubectl(version: str, *kinds: str, group: bool = True) -> Kubectl:
    return cast("Kubectl", FakeKubectl(version, list(kinds) if group else None))


OLD = kubectl("v1.35.8", "ValidatingAdmissionPolicy")
NEW = kubectl("v1.36.4", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def test_a_test_is_skipped_with_the_version_and_what_it_lacks() -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        features.require(OLD, MUTATING_POLICIES)
    assert str(skipped.value) == (
        "Kubernetes v1.35.8 does not serve MutatingAdmissionPolicy"
        " (admissionregistration.k8s.io/v1)"
    )
    features.require(NEW, MUTATING_POLICIES)


def test_a_test_of_older_versions_is_skipped_on_newer_ones() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"Kubernetes v1.36.4 serves Mutating"):
        features.require_none(NEW, MUTATING_POLICIES)
    features.require_none(OLD, MUTATING_POLICIES)


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        (
            kubectl("v1.36.4", "ValidatingAdmissionPolicy"),
            r"v1\.36\.4 does not serve .* but the first is 1\.36",
        ),
        (kubectl("v1.37.2", group=False), r"v1\.37\.2 does not serve"),
        (kubectl("v1.35.8", "MutatingAdmissionPolicy"), r"v1\.35\.8 serves"),
        (kubectl("main", "MutatingAdmissionPolicy"), "not main"),
    ],
)
def test_no_test_is_skipped_if_response_and_version_disagree(
    server: Kubectl, complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        features.require(server, MUTATING_POLICIES)


def test_an_error_of_the_api_server_is_no_missing_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: str) -> str:
        raise KubectlError("Error from server (Forbidden)")

    monkeypatch.setattr(OLD, "run", forbidden)
    with pytest.raises(KubectlError, match="Forbidden"):
        features.is_served(OLD, MUTATING_POLICIES)
