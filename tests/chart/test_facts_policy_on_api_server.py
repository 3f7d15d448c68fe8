"""The admission policy that copies facts from a GPUProfile to the pods that name it."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from gputopo.api.known_facts import FactsAnnotation
from gputopo.api.names import API_VERSION, FACTS_ANNOTATION, PROFILE_ANNOTATION
from support.control_plane.api_server import START_SECONDS, ApiServer, User

ALICE = User("alice", ("system:masters",))
OPERATOR = User("system:serviceaccount:gputopo-system:gputopo-operator", ("system:masters",))
_number = itertools.count()


def known(profile: str, percent: int) -> str:
    """Return the facts of a profile as the operator writes them."""
    return FactsAnnotation.declared(profile, percent).dump()


def put_profile(
    server: ApiServer, name: str, annotation: str | None, *, namespace: str = "default"
) -> str:
    """Create a GPUProfile with this ``status.podAnnotation``; return its path."""
    path = f"/apis/gputopo.io/v1alpha1/namespaces/{namespace}/gpuprofiles"
    kind = {"apiVersion": API_VERSION, "kind": "GPUProfile"}
    created = server.create(path, {**kind, "metadata": {"name": name}, "spec": {}})
    assert created.accepted, created.message
    status = {"observedGeneration": 1, "podAnnotation": annotation}
    written = server.merge(f"{path}/{name}/status", {"status": status}, OPERATOR)
    assert written.accepted, written.message
    return f"{path}/{name}"


def pod(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"facts-{next(_number)}", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


def created(server: ApiServer, annotations: dict[str, str], namespace: str = "default") -> str:
    """Create a pod without storing it; return its facts, empty if it has none."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    response = server.request("POST", path, pod(**annotations), user=ALICE)
    assert response.accepted, response.message
    found = response.body["metadata"].get("annotations", {})
    assert {**found, **annotations}.keys() == found.keys(), "annotations of the user are kept"
    return str(found.get(FACTS_ANNOTATION, ""))


def wait_for_profiles(server: ApiServer, namespace: str = "default") -> None:
    """Wait until the policy has seen all GPUProfiles that exist: the API server watches them."""
    name = f"last-{next(_number)}"
    put_profile(server, name, known(name, 1), namespace=namespace)
    deadline = time.monotonic() + START_SECONDS
    while created(server, {PROFILE_ANNOTATION: name}, namespace) != known(name, 1):
        assert time.monotonic() < deadline, "the policy sees no GPUProfile"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def profiles(mutating_policies: ApiServer) -> ApiServer:
    """GPUProfiles with facts, without facts, and in another namespace."""
    server = mutating_policies
    assert server.create("/api/v1/namespaces", {"metadata": {"name": "other"}}).accepted
    put_profile(server, "bert", known("bert", 45))
    put_profile(server, "resnet", known("resnet", 2))
    put_profile(server, "empty", None)
    put_profile(server, "elsewhere", known("elsewhere", 7), namespace="other")
    wait_for_profiles(server, "other")
    wait_for_profiles(server)
    return server


def test_pod_gets_the_facts_of_the_profile_that_it_names(profiles: ApiServer) -> None:
    for name, percent in (("bert", 45), ("resnet", 2)):
        assert created(profiles, {PROFILE_ANNOTATION: name}) == known(name, percent)
    assert created(profiles, {PROFILE_ANNOTATION: "elsewhere"}, "other") == known("elsewhere", 7)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="no profile"),
        pytest.param({"gputopo.io/policy": "Greedy"}, id="other annotations"),
        pytest.param({PROFILE_ANNOTATION: "missing"}, id="a profile that does not exist"),
        pytest.param({PROFILE_ANNOTATION: ""}, id="an empty name"),
        pytest.param({PROFILE_ANNOTATION: "empty"}, id="a profile without facts"),
        pytest.param({PROFILE_ANNOTATION: "elsewhere"}, id="a profile of another namespace"),
    ],
)
def test_pod_of_no_known_workload_is_not_changed(
    profiles: ApiServer, annotations: dict[str, str]
) -> None:
    assert created(profiles, annotations) == ""


def test_facts_that_a_user_writes_count_only_if_nothing_is_known(profiles: ApiServer) -> None:
    own = known("bert", 99)
    assert created(profiles, {PROFILE_ANNOTATION: "bert", FACTS_ANNOTATION: own}) == known(
        "bert", 45
    )
    for name in ("empty", "missing"):
        assert created(profiles, {PROFILE_ANNOTATION: name, FACTS_ANNOTATION: own}) == own


def test_facts_older_than_the_spec_of_their_profile_are_not_copied(profiles: ApiServer) -> None:
    path = put_profile(profiles, "edited", known("edited", 45))
    assert profiles.merge(path, {"spec": {"bandwidthSensitivityPercent": 1}}).accepted
    wait_for_profiles(profiles)
    assert created(profiles, {PROFILE_ANNOTATION: "edited"}) == ""
    status = {"observedGeneration": 2, "podAnnotation": known("edited", 1)}
    assert profiles.merge(f"{path}/status", {"status": status}, OPERATOR).accepted
    wait_for_profiles(profiles)
    assert created(profiles, {PROFILE_ANNOTATION: "edited"}) == known("edited", 1)


def test_a_hundred_profiles_in_a_namespace_do_not_mix(
    profiles: ApiServer, record_property: Callable[[str, object], None]
) -> None:
    path = "/api/v1/namespaces"
    for namespace, count in (("few", 1), ("many", 100)):
        assert profiles.create(path, {"metadata": {"name": namespace}}).accepted
        for number in range(count):
            name = f"workload-{number}"
            put_profile(profiles, name, known(name, number), namespace=namespace)
        wait_for_profiles(profiles, namespace)
        seconds: list[float] = []
        for number in range(count):
            name, began = f"workload-{number}", time.perf_counter()
            facts = created(profiles, {PROFILE_ANNOTATION: name}, namespace)
            seconds.append(time.perf_counter() - began)
            assert facts == known(name, number)
        # Reported and not checked: the time depends on the machine.
        median = f"{1000 * statistics.median(seconds):.1f} ms"
        record_property(f"creation of a pod beside {count} GPUProfiles", median)
        print(f"creation of a pod beside {count} GPUProfiles: {median}")
