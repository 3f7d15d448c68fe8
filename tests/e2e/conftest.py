"""The cluster that the end-to-end tests run on, and a namespace for each of them.

With ``GPUTOPO_E2E_KUBECONFIG`` and ``GPUTOPO_E2E_IMAGE`` set, the tests use that
cluster, with gputopo and fake GPUs installed. Otherwise they start the local one,
or with ``GPUTOPO_E2E_CLUSTER=kind`` that of kind, install the chart, and remove it
at the end unless it was running before. Tests that reach into a node use the
fixture ``nodes``, and those that stop parts of the control plane ``local_cluster``.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import charts
import workloads
from charts import Chart
from counted import Counted, counted_on
from faulttest import run as faults_run
from faulttest.bench import Bench
from faulttest.scenario import Options, Outcome, Scenario, table
from gputopo.api.names import RESOURCE
from localcluster.access import NodeAccess
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from sandbox import Sandbox, sandbox_in
from scenarios import CarryOut
from showcase import install
from showcase.install import PLATFORMS, Platform
from showcase.kubectl import Kubectl

_VALUES = Path(__file__).with_name("values.yaml")

COUNTERS = "counters"
"""Fixture of all tests of the run that counters show."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring end-to-end tests of the same values of the chart together."""
    places = [place for place, item in enumerate(items) if item.get_closest_marker("e2e")]
    own = sorted((items[place] for place in places), key=_stage_of_counters)
    for place, item in zip(places, charts.grouped(own), strict=True):
        items[place] = item


def _stage_of_counters(item: pytest.Item) -> int:
    """Return 2 for tests of the run that counters show, 1 for those beside it, 0 for others."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return 2 if COUNTERS in names else int("beside_counters" in names)


@pytest.fixture(scope="session")
def platform() -> Platform:
    """What the nodes of the cluster are, if the tests start it."""
    chosen = os.environ.get("GPUTOPO_E2E_CLUSTER", "local")
    assert chosen in PLATFORMS, f"GPUTOPO_E2E_CLUSTER: {chosen!r}: not one of {list(PLATFORMS)}"
    return PLATFORMS[chosen]()


@pytest.fixture(scope="session")
def was_running(platform: Platform) -> bool:
    """Whether the cluster was running before, and so stays."""
    return install.cluster_is_running(platform)


@pytest.fixture(scope="session")
def installed(
    platform: Platform,
    was_running: bool,  # noqa: FBT001 - a fixture
) -> Iterator[install.Installed]:
    """A cluster with gputopo on it."""
    if kubeconfig := os.environ.get("GPUTOPO_E2E_KUBECONFIG"):
        binary = shutil.which("kubectl")
        assert binary, "kubectl is not on the PATH"
        image = os.environ.get("GPUTOPO_E2E_IMAGE")
        assert image, "GPUTOPO_E2E_IMAGE must name an image for the tests' pods, as busybox"
        given = install.Installed(Kubectl(Path(binary), Path(kubeconfig)), image)
        _assert_idle(given.kubectl)
        yield given
        return
    try:
        own = install.on_cluster(platform, print, _VALUES)
        _assert_idle(own.kubectl)
        yield own
    finally:
        if not was_running:
            install.remove_cluster(platform)


@pytest.fixture(scope="session")
def chart_values(
    installed: install.Installed,
    was_running: bool,  # noqa: FBT001 - a fixture
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Chart]:
    """Installs the chart with the values that a test needs."""
    made = Chart(installed, tmp_path_factory.mktemp("chart"))
    yield made
    if was_running:
        made.use({})


@pytest.fixture(scope="module", autouse=True)
def chart(chart_values: Chart, request: pytest.FixtureRequest) -> install.Installed:
    """The chart with the values that the module's marker ``chart`` has."""
    return chart_values.use(charts.values_of(request.node))


def _assert_idle(kubectl: Kubectl) -> None:
    """Check that all GPUs are free, because nearly every test needs all of them."""
    users = [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in kubectl.list("pods")
        if workloads.phase(pod) not in {"Succeeded", "Failed"}
        and any(
            RESOURCE in container.get("resources", {}).get("limits", {})
            for container in pod["spec"]["containers"]
        )
    ]
    assert users == [], "pods use GPUs of this cluster: delete them first"


@pytest.fixture(scope="session")
def kubectl(installed: install.Installed) -> Kubectl:
    return installed.kubectl


@pytest.fixture(scope="session")
def nodes(installed: install.Installed) -> NodeAccess:
    """The nodes as machines."""
    if installed.platform is None:
        pytest.skip("this cluster gives no access to its nodes")
    return installed.nodes


@pytest.fixture(scope="session")
def local_cluster(installed: install.Installed) -> Cluster:
    """The local cluster, for tests that stop parts of its control plane."""
    if installed.platform is None or not installed.platform.is_local:
        pytest.skip("kind: no part of the control plane can be stopped, as `tools/cluster` can")
    return Cluster(current_paths(), Progress())


@pytest.fixture(scope="session")
def scenarios_namespace(
    local_cluster: Cluster,  # noqa: ARG001 - it runs
) -> Iterator[Callable[[], None]]:
    """The namespace of all scenarios of ``tools/faults``; a call makes it again.

    It takes Kubernetes more than 5 s to delete a namespace.
    """
    with ExitStack() as stack:

        def renew() -> None:
            stack.close()
            stack.enter_context(faults_run.own_namespace())

        renew()
        yield renew


@pytest.fixture
def carry_out(
    installed: install.Installed,
    local_cluster: Cluster,
    scenarios_namespace: Callable[[], None],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> CarryOut:
    """Run a scenario of ``tools/faults`` and print its findings."""

    def run(scenario: Callable[[Bench, Options], None], options: Options) -> Outcome:
        log = tmp_path / "faults.log"
        named = Scenario(request.node.name, "a test", scenario)
        found: Outcome | None = None
        try:
            found = faults_run.one(installed, local_cluster, named, options, log)
        finally:
            if found is None or found.findings:
                scenarios_namespace()  # the next scenario finds nothing of this one
        print("\n".join(table([found], str(log))))
        return found

    return run


@pytest.fixture(scope="session")
def counted(installed: install.Installed, nodes: NodeAccess, dgx1: str) -> Iterator[Counted]:
    """The first run of the job of test_counters.py on the node with double NVLinks."""
    with counted_on(installed, nodes, dgx1) as made:
        yield made


@pytest.fixture(scope="session")
def beside_counters(request: pytest.FixtureRequest) -> None:
    """Start that run, if its tests are selected. Tests with this fixture leave its node alone.

    If it cannot start, only its own tests fail.
    """
    if any(COUNTERS in getattr(item, "fixturenames", ()) for item in request.session.items):
        with suppress(Exception, pytest.fail.Exception):
            request.getfixturevalue("counted")


@pytest.fixture
def sandbox(installed: install.Installed, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    with sandbox_in(installed, name) as box:
        yield box


def _node_with(kubectl: Kubectl, fits: Callable[[set[str]], bool]) -> str:
    for topology in kubectl.list("gputopologies"):
        kinds = {f"{link['kind']}{link['count']}" for link in topology["spec"]["links"]}
        if fits(kinds):
            return str(topology["metadata"]["name"])
    raise AssertionError("no node with the links that this test needs")


@pytest.fixture(scope="session")
def dgx1(kubectl: Kubectl) -> str:
    """Name of the node with single and double NVLinks."""
    return _node_with(kubectl, {"NVLink1", "NVLink2"}.issubset)


@pytest.fixture(scope="session")
def nvswitch(kubectl: Kubectl) -> str:
    """Name of the node with NVSwitches."""
    return _node_with(kubectl, lambda kinds: any(kind.startswith("NVSwitch") for kind in kinds))


@pytest.fixture(scope="session")
def pcie(kubectl: Kubectl) -> str:
    """Name of the node without any NVLink."""
    return _node_with(kubectl, lambda kinds: all(kind.startswith("PCIe") for kind in kinds))
