"""Training jobs report their steps, and from the second run on they are placed by what was seen.

All jobs run side by side from the first test on. Each test waits for what it checks, so the order
of the tests is the order in which facts become known. ``values.yaml`` makes samples short.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pytest
import yaml

from features import require
from gputopo.api.measuring import MeasuringRequest, MetricsEndpoint
from gputopo.api.names import FACTS_ANNOTATION
from gputopo.api.profile import Sample
from learning import LEARN_SECONDS, Learning, column, flooding, learning_in
from learntest import laws, manifests, profiles
from learntest.manifests import Run
from localcluster import access
from localcluster.access import NodeAccess
from longruns import LONG
from showcase.install import Installed
from showcase.kubectl import KubectlError, Object, wait_for
from support.features import MUTATING_POLICIES

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpujob-measured.yaml"
PERCENT = {"resnet50": 60.0, "insensitive": 2.0}
"""How much longer each workload truly runs on the worst links; resnet50 is that of the example."""

RATE_ERROR = 0.15
"""Other programs of the machine lower the rate of a job."""

MILLI_CPU = 200
PROFILING_SECONDS = 120


@pytest.fixture(scope="module")
def learning(installed: Installed, dgx1: str, pcie: str, nvswitch: str) -> Iterator[Learning]:
    """All jobs of this module; every GPU of two nodes is used."""
    with learning_in(installed, "measuring") as made:
        made.box.wait_for_empty_ledgers()
        _start_all(made, dgx1, pcie, nvswitch)
        yield made


def _start_all(learning: Learning, dgx1: str, pcie: str, nvswitch: str) -> None:
    learning.start(_cpu_run(nvswitch), *_other_sources(nvswitch))
    neighbour = Run("neighbour", laws.plain_law(9), nvswitch, gpus=1, measuring=_of("neighbour"))
    flood = Run("flood", {}, nvswitch, gpus=1, milli_cpu=50)
    learning.box.create(flooding(flood, learning.image))
    learning.start(neighbour)
    for node, profile in ((dgx1, "resnet50"), (pcie, "insensitive")):
        topology, percent = learning.topologies[node], PERCENT[profile]
        runs = [
            Run(
                f"{profile}-{number}",
                laws.link_law(topology, percent, number),
                node,
                policy="Weakest" if number < 2 else None,
                measuring=_of(profile),
            )
            for number in range(4)
        ]
        # Two jobs with the weakest links first: the best links stay free for the other two.
        learning.start(*runs[:2], make=_job)
        learning.start(*runs[2:], make=_job)


def _job(run: Run, image: str) -> Object:
    """Return the GPUJob of a run: for the workload of the example, the example itself."""
    job = manifests.job(run, image)
    example: Object = yaml.safe_load(EXAMPLE.read_text())
    if job["spec"]["workload"] != example["spec"]["workload"]:
        return job
    example["metadata"]["name"] = run.name
    example["spec"] |= {
        key: job["spec"][key] for key in ("template", "placement") if key in job["spec"]
    }
    return example


def _pods(samples: list[Sample]) -> set[str]:
    return {sample.pod_uid for sample in samples}


def _of(profile: str) -> MeasuringRequest:
    return MeasuringRequest(profile=profile)


def _cpu_run(node: str) -> Run:
    """A job that is slower with less than all of its CPUs, and may not get more."""
    law = laws.cpu_law(5, seconds=0.05, workers=2, images=32)
    request = MeasuringRequest(
        profile="decoder", targets=("CPUs",), profiling_seconds=PROFILING_SECONDS
    )
    return Run("decoder", law, node, gpus=1, milli_cpu=MILLI_CPU, measuring=request)


def _other_sources(node: str) -> list[Run]:
    endpoint = MetricsEndpoint(9090, "/metrics", "training_steps_total")
    metrics = MeasuringRequest(profile="by-metrics", source="Metrics", metrics=endpoint)
    log = MeasuringRequest(profile="by-log", source="Log")
    return [
        Run("by-metrics", laws.plain_law(6, port=9090), node, gpus=1, measuring=metrics),
        Run("by-log", laws.plain_law(7, log=True), node, gpus=1, measuring=log),
    ]


def test_a_container_has_its_socket_in_a_folder_that_it_cannot_change(learning: Learning) -> None:
    pod = learning.pod_of("resnet50-0")["metadata"]["name"]

    def inside(command: str) -> str:
        return learning.box.kubectl.execute(pod, learning.box.namespace, "sh", "-c", command)

    assert inside('stat -c %F "$GPUTOPO_STEPS_SOCKET"').strip() == "socket"
    with pytest.raises(KubectlError, match="Read-only file system"):
        inside('touch "$(dirname "$GPUTOPO_STEPS_SOCKET")/file"')


def test_the_rate_of_a_running_job_is_in_its_status_and_in_kubectl_get(learning: Learning) -> None:
    law = laws.link_law(next(iter(learning.topologies.values())), PERCENT["resnet50"], 0)
    slow = laws.steps_per_second(law, min(law["links"].values()))

    rates: list[float] = []

    def is_near() -> bool:
        job = learning.box.kubectl.get("gpujob", "resnet50-0", learning.box.namespace)
        throughput: Object = job.get("status", {}).get("throughput", {})
        if throughput.get("state") == "Steady":
            rates.append(throughput["microStepsPerSecond"] / 1e6)
        return max(rates, default=0.0) == pytest.approx(slow, rel=RATE_ERROR)

    try:
        wait_for("the rate is in the status", is_near, timeout_s=LEARN_SECONDS)
    except TimeoutError:
        assert max(rates, default=0.0) == pytest.approx(slow, rel=RATE_ERROR), rates
    table = learning.box.kubectl.run("get", "gj", "-o", "wide", "-n", learning.box.namespace)
    print(table)
    assert any("±" in value for value in column(table, "STEPS/S"))


@LONG
def test_a_killed_agent_continues_the_measurements_of_its_node(
    learning: Learning, dgx1: str, nodes: NodeAccess
) -> None:
    own = learning.uids["resnet50"]
    learning.samples("resnet50", lambda samples: _pods(samples) == own)
    killed_at = datetime.now(UTC)
    assert access.kill(nodes, "gputopo-deviceplugin", dgx1) == 1

    def later(samples: list[Sample]) -> list[Sample]:
        return [each for each in samples if datetime.fromisoformat(each.time) > killed_at]

    samples = learning.samples("resnet50", lambda samples: _pods(later(samples)) == own)
    assert _pods(samples) == own, "no sample is lost, and none is of another workload"
    assert len(later(samples)) < len(samples)


@pytest.mark.parametrize("profile", PERCENT)
def test_the_slowdown_on_bad_links_is_known_after_four_runs(
    learning: Learning, profile: str
) -> None:
    fact = learning.link_fact(profile)
    print(f"{profile}: truth {PERCENT[profile]} %, learnt {fact}")
    assert profiles.is_right(fact, PERCENT[profile]), fact
    samples = learning.status_of(profile).samples
    assert _pods(samples) <= learning.uids[profile]
    assert len({sample.effective_mb_per_s for sample in samples}) > 1


@pytest.mark.parametrize("profile", ["by-metrics", "by-log"])
def test_steps_are_counted_from_a_metric_and_from_a_log(learning: Learning, profile: str) -> None:
    samples = learning.samples(profile)
    assert {each.source for each in samples} == {
        {"by-metrics": "Metrics", "by-log": "Log"}[profile]
    }
    _assert_plain_rate(samples)


def _assert_plain_rate(samples: list[Sample]) -> None:
    truth = laws.steps_per_second(laws.plain_law(0))
    rates = [each.steps_per_second for each in samples]
    assert median(rates) == pytest.approx(truth, rel=RATE_ERROR), rates


def test_garbage_of_one_container_changes_nothing_for_its_neighbour(learning: Learning) -> None:
    _assert_plain_rate(learning.samples("neighbour"))
    node = learning.pod_of("flood")["spec"]["nodeName"]
    dropped = 'gputopo_agent_dropped_steps_total{reason="Malformed"}'
    assert learning.agent_metric(node, dropped) > 0
    assert learning.measurement("flood")["state"] == "NoData"


@pytest.mark.parametrize("profile", PERCENT)
def test_later_jobs_are_placed_by_the_facts(
    learning: Learning, profile: str, dgx1: str, pcie: str
) -> None:
    box = learning.box
    ended = [f"{profile}-{number}" for number in range(4)]
    box.kubectl.run("delete", "gpujob", "-n", box.namespace, "--wait=true", *ended)
    job = _later(learning, profile, "job", dgx1, pcie)
    learning.start(job, make=_job)
    _assert_placed_by_facts(learning, job)
    status = box.kubectl.get("gpujob", job.name, box.namespace)["status"]
    accepted = next(each for each in status["conditions"] if each["type"] == "Accepted")
    assert f"GPUProfile {profile}: " in accepted["message"]


@pytest.mark.parametrize("profile", PERCENT)
def test_later_pods_without_a_gpujob_are_placed_by_the_facts(
    learning: Learning, profile: str, dgx1: str, pcie: str
) -> None:
    require(learning.box.kubectl, MUTATING_POLICIES)
    pod = _later(learning, profile, "pod", dgx1, pcie)
    learning.start(pod, make=manifests.pod)
    _assert_placed_by_facts(learning, pod)


def _later(learning: Learning, profile: str, what: str, dgx1: str, pcie: str) -> Run:
    node = dgx1 if profile == "resnet50" else pcie
    law = laws.link_law(learning.topologies[node], PERCENT[profile], 10)
    return Run(f"{profile}-{what}", law, node, measuring=_of(profile))


def _assert_placed_by_facts(learning: Learning, run: Run) -> None:
    profile = run.measuring.profile
    placement = learning.placement_of(run.name)
    assert (placement.sensitive, placement.reason) == (profile == "resnet50", "Profile")
    assert placement.fact is not None
    assert placement.fact.startswith(f"GPUProfile {profile}: ")
    assert FACTS_ANNOTATION in learning.pod_of(run.name)["metadata"]["annotations"]


def test_measured_cpus_of_a_running_pod_are_restored_without_a_restart(learning: Learning) -> None:
    def finished() -> bool:
        return '"restored":true' in learning.pod_of("decoder")["metadata"]["annotations"].get(
            "gputopo.io/profiling-state", ""
        )

    wait_for("the CPUs were measured and restored", finished, timeout_s=PROFILING_SECONDS + 60)
    pod = learning.pod_of("decoder")
    wanted = manifests.job(_cpu_run("n2"), "")["spec"]["template"]["spec"]["containers"][0]
    spec, status = pod["spec"]["containers"][0], pod["status"]["containerStatuses"][0]
    for resources in (spec["resources"], status["resources"]):
        assert resources["requests"]["cpu"] == wanted["resources"]["requests"]["cpu"]
        assert resources["limits"]["cpu"] == wanted["resources"]["limits"]["cpu"]
    assert status["restartCount"] == 0
    samples = learning.status_of("decoder").samples
    print([(sample.milli_cpu, sample.micro_steps_per_second) for sample in samples])
    assert len({sample.milli_cpu for sample in samples}) >= 2
