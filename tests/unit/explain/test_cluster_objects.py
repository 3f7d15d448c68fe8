"""The settings of the installation are those of its containers, or the defaults with the reason."""

from gputopo.placement.model import PolicyName
from gputopo.sharing.policy import ALL_MEMORY_PERCENT, SharingPolicy
from gputopo_explain.machines import amount_text, unchecked_rules
from gputopo_explain.objects import Installation, LiveKind, parse_installation
from gputopo_scheduling.surroundings import NOTHING_RUNS
from support.builders.live import cluster, gpu_user, installed
from support.builders.node_reports import beside, learnt_profile
from support.builders.objects import topology_object
from support.builders.topologies import node

UNLIMITED = SharingPolicy.of(max_memory_percent=ALL_MEMORY_PERCENT)
"""The policy of an older installation, which does not limit the memory of a share."""


def test_settings_are_the_arguments_of_the_containers() -> None:
    scheduler = installed("--resource=example.org/gpu", "--default-policy=Greedy")
    scheduler["spec"]["template"]["spec"]["initContainers"] = [{"args": ["--offer-one-above=7"]}]
    operator = installed(
        "--scheduler-name=mine", "--queue-order=LAS", "--queue-max-skip-seconds=60"
    )
    other = {**installed("--resource=wrong"), "metadata": {"name": "x", "namespace": "y"}}
    assert parse_installation([other, scheduler, operator]) == Installation(
        resource="example.org/gpu",
        scheduler_name="mine",
        default_policy=PolicyName.GREEDY,
        offer_one_above=7,
        queue_order="LAS",
        max_skip_seconds=60,
        sharing=UNLIMITED,
    )


def test_unknown_values_are_the_defaults() -> None:
    odd = installed("--default-policy=Newest", "--offer-one-above=many", "--resource=")
    assert parse_installation([odd]) == Installation(sharing=UNLIMITED)


def test_older_installation_has_no_limit_of_the_memory_of_a_share() -> None:
    assert parse_installation([installed()]).sharing == UNLIMITED
    assert parse_installation([]).sharing.max_memory_percent == 50
    flag = installed("--sharing-max-memory-percent=40")
    assert parse_installation([flag]).sharing.max_memory_percent == 40


def test_weights_of_the_installation_are_read() -> None:
    found = parse_installation([installed("--utility-weights=50,40,10")])
    assert found.utility_weights.percents == (50, 40, 10)
    odd = parse_installation([installed("--utility-weights=a third each")])
    assert odd.utility_weights == Installation().utility_weights


def test_missing_parts_are_named() -> None:
    without = cluster(deployments=[])
    (note,) = without.notes
    assert note.startswith("no Deployment has the label app.kubernetes.io/part-of=gputopo: ")
    assert note.endswith("the default settings are assumed")
    denied = cluster(
        unread={LiveKind.DEPLOYMENTS: "no permission", LiveKind.LEASES: "no permission"}
    )
    assert denied.notes == [
        "leases: no permission: pods that are being bound now are not considered",
        "Deployments cannot be read: no permission: the default settings are assumed",
    ]


def test_the_only_namespace_whose_pods_were_read_is_named() -> None:
    found = cluster(namespace="ml")
    assert (found.has_all_pods("ml"), found.has_all_pods("default")) == (True, False)
    assert found.notes == [
        "pods: only those of namespace ml are read: other pods are known only from the agents"
    ]
    denied = cluster(namespace="ml", unread={LiveKind.PODS: "no permission"})
    assert not denied.has_all_pods("ml")
    assert denied.notes == ["pods: no permission: the GPUs of pods are known only from the agents"]


def test_profiles_show_the_workloads_beside_a_pod() -> None:
    noisy = gpu_user("a", "n1", 0, 2)
    noisy["metadata"]["annotations"]["gputopo.io/profile"] = "noisy"
    found = cluster([noisy], profiles=[learnt_profile("quiet", beside("default/noisy", 30))])
    (neighbour,) = found.surroundings["n1"].neighbours
    assert neighbour.workload.name == "default/noisy"
    assert found.surroundings["n2"] is NOTHING_RUNS
    denied = cluster([noisy], unread={LiveKind.PROFILES: "no permission"})
    assert denied.surroundings["n1"] is NOTHING_RUNS
    assert denied.notes == [
        "gpuprofiles: no permission: slowdowns beside other workloads are unknown"
    ]


def test_pods_that_cannot_be_parsed_are_in_the_notes() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "x"}, "spec": {"containers": 1}}
    objects = cluster([odd], topologies=[topology_object("n1", node(0, 1))])
    assert [*objects.pod_documents] == [("x", "odd")]
    assert objects.notes[0].startswith("pod x/odd: ignored, as the extender does")


def test_rules_between_pods_and_host_ports_are_not_considered() -> None:
    spread = [{"whenUnsatisfiable": "DoNotSchedule"}]
    ports = [{"name": "c", "ports": [{"hostPort": 80}]}]
    spec = {"topologySpreadConstraints": spread, "containers": ports}
    assert unchecked_rules(spec) == ["affinity to other pods or topology spread", "host ports"]
    assert unchecked_rules({"containers": [{"name": "c", "ports": [{}]}]}) == []


def test_amounts_are_written_in_the_unit_of_their_resource() -> None:
    assert amount_text("cpu", 10_000_000) == "10000"
    assert amount_text("ephemeral-storage", 2**31 * 1000) == "2048Mi"
    assert amount_text("gputopo.io/gpu", 3000) == "3"
