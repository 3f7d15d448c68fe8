from typing import Any

import pytest

from gputopo.api.quantity import parse_thousandths
from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.podruntime import ContainerRuntime, PodRuntime, runtime_of
from support.builders.objects import pod

Document = dict[str, Any]


def runtime(
    *, spec: Document | None = None, statuses: list[Document] | None = None, **of_pod: Any
) -> PodRuntime:
    """Return the runtime of a pod whose only container "main" has these resources and statuses."""
    document = pod("a", containers=[{"name": "main", "resources": spec}])
    document["spec"] |= of_pod
    document["status"] |= {"podIP": "10.0.0.7", "containerStatuses": statuses or []}
    return runtime_of(parse_pod_object(document))


def limits(**amounts: str) -> Document:
    return {"limits": amounts}


def test_the_status_has_the_limits_in_force_and_the_spec_the_requested_ones() -> None:
    found = runtime(
        spec=limits(cpu="4", memory="8Gi"),
        statuses=[
            {
                "name": "main",
                "imageID": "example.org/train@sha256:1a2b",
                "resources": limits(cpu="2500m", memory="6Gi"),
            }
        ],
    )
    assert found == PodRuntime(
        "10.0.0.7", {"main": ContainerRuntime(2500, 6 * 2**30, "sha256:1a2b")}
    )


def test_without_resources_in_the_status_the_spec_counts() -> None:
    found = runtime(spec=limits(cpu="4"), statuses=[{"name": "main", "imageID": "sha256:1a2b"}])
    assert found.containers["main"] == ContainerRuntime(4000, None, "sha256:1a2b")
    assert runtime().containers["main"] == ContainerRuntime()


def test_a_status_without_limits_means_no_limit() -> None:
    found = runtime(
        spec=limits(cpu="4"), statuses=[{"name": "main", "resources": {"requests": {}}}]
    )
    assert found.containers["main"].milli_cpu is None
    assert runtime(spec=limits(cpu="0")).containers["main"].milli_cpu is None


def test_a_limit_beyond_all_machines_is_no_limit() -> None:
    most = 2**53 - 1
    found = runtime(spec=limits(cpu=f"{most}m", memory=str(most))).containers["main"]
    assert (found.milli_cpu, found.memory_bytes) == (most, most)
    for limit in ("9E", "1e18", str(most + 1)):
        found = runtime(spec=limits(cpu=limit, memory=limit)).containers["main"]
        assert (found.milli_cpu, found.memory_bytes) == (None, None)


def test_a_limit_of_the_pod_counts_for_containers_without_their_own() -> None:
    found = runtime(spec=limits(cpu="1"), resources=limits(cpu="4", memory="1k"))
    assert found.containers["main"] == ContainerRuntime(1000, 1000)


def test_init_containers_have_a_runtime_too() -> None:
    document = pod("a", init_containers=[{"name": "proxy", "resources": limits(cpu="1")}])
    document["status"]["initContainerStatuses"] = [{"name": "proxy", "resources": limits(cpu="2")}]
    found = runtime_of(parse_pod_object(document))
    assert found.ip is None
    assert found.containers["proxy"].milli_cpu == 2000


@pytest.mark.parametrize(
    ("quantity", "thousandths"),
    [
        ("100n", 1),
        ("1500M", 1_500_000_000_000),
        ("129e6", 129_000_000_000),
        ("1E-3", 1),
        ("2Ei", 2**61 * 1000),
        ("1288490188800m", 1288490188800),
        (4, 4000),
        (None, None),
        ("-1", None),
        ("1e999", None),
        ("٣", None),
    ],
)
def test_quantities_in_every_form_of_the_api_server(
    quantity: object, thousandths: int | None
) -> None:
    assert parse_thousandths(quantity) == thousandths
