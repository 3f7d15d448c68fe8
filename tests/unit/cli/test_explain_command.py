"""``gputopo explain`` shows why a placed pod has its GPUs, and repeats the decision."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.names import GPUS_ANNOTATION
from support.api.static import Document, StaticApi
from support.builders.objects import pod, topology_object
from support.cli.command_line import Command, Done
from support.cli.reachable import Serve
from support.explain.by_utility import pod_by_utility
from support.explain.placed import DGX1, altered, of_an_older_version, placed_pod

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/gputopo.io/v1alpha1/namespaces/default/gpujobs"
ENSEMBLE = "/apis/gputopo.io/v1alpha1/namespaces/default/gpuensembles/search"
TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"
TRAIN = placed_pod(3, busy=[0, 3])
CHOSEN = [4, 6, 7]

SCREEN = """\
pod default/train: GPUs 4, 6, 7 of node n1

REQUEST                 FROM
GPUs         3          containers of the pod: main 3
pattern      Ring       default
sensitivity  Sensitive  nothing is known of the workload: a job of several GPUs is assumed to be \
sensitive
policy       Preserve   default of the installation

           GPUS IN RANK ORDER  EFFECTIVE GB/s       DIFFERENCE  PRESERVED GB/s   DIFFERENCE
chosen     4, 6, 7                     57.858                              112
2.         5, 6, 7                     57.858                0              74  -38 (-34 %)
3.         4, 5, 7                     44.127  -13.731 (-24 %)              87  -25 (-22 %)
4.         4, 5, 6                     44.127  -13.731 (-24 %)              74  -38 (-34 %)
idle node  0, 2, 3                     57.858                0             311

CHECK        RESULT
bandwidth    100 % of 57.858 GB/s, the most that a set of this size has on this node; by the model \
eq2
other nodes  n1 was one of the 2 best of 2 nodes on which the pod fitted; score 10 of 10
other nodes  did not fit: 1 with too few free GPUs
replay       same choice: the recorded input gives these GPUs and figures again
kubelet      the pod has exactly the intended GPUs
"""


@pytest.fixture
def api(serve: Serve) -> StaticApi:
    used = dict.fromkeys(CHOSEN, "uid-train")
    known = StaticApi(
        objects={
            f"{PODS}/train": TRAIN,
            f"{TOPOLOGIES}/n1": topology_object("n1", DGX1, used_by=used),
        }
    )
    return serve(known)


Save = Callable[[str, Document], str]


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    monkeypatch.chdir(tmp_path)  # messages shorten long paths

    def write(name: str, document: Document) -> str:
        Path(name).write_text(json.dumps(document))
        return name

    return write


def of_job(name: str, created: str, **fields: Any) -> Document:
    document = placed_pod(2, name=name, **fields)
    document["metadata"] |= {"labels": {"gputopo.io/job": "bert"}, "creationTimestamp": created}
    return document


@pytest.mark.parametrize("name", ["train", "pod/train", "pods/train", "po/train"])
def test_placed_pod_is_explained_on_one_screen(api: StaticApi, gputopo: Command, name: str) -> None:
    assert api.url
    assert gputopo(f"explain {name}") == Done(0, SCREEN, "")


def test_json_has_the_same_facts(api: StaticApi, gputopo: Command) -> None:
    assert api.url
    found = gputopo("explain train -o json").document
    assert found["pod"] == {"namespace": "default", "name": "train", "uid": "uid-train"}
    assert (found["kind"], found["node"], found["gpuJob"]) == ("Placed", "n1", None)
    assert found["request"][1] == {
        "name": "pattern",
        "value": "Ring",
        "source": "default",
        "changed": None,
    }
    assert [gpu["index"] for gpu in found["gpus"]] == CHOSEN
    assert {gpu["state"] for gpu in found["gpus"]} == {"as intended"}
    assert found["recorded"]["effectiveMBps"] == 57858
    assert found["choices"]["alternatives"][1] == {
        "gpus": [4, 5, 7],
        "effectiveBandwidthGBps": 44.127,
        "effectiveDifferenceGBps": -13.731,
        "effectiveDifferencePercent": pytest.approx(-23.7, abs=0.1),
        "aggregateBandwidthGBps": 100.0,
        "preservedBandwidthGBps": 87.0,
        "preservedDifferenceGBps": -25.0,
        "preservedDifferencePercent": pytest.approx(-22.3, abs=0.1),
    }
    assert found["choices"]["idleNode"]["mostEffectiveBandwidthGBps"] == 57.858
    assert found["nodes"]["misfits"] == {"busy": 1}
    assert found["replay"] == {"verdict": "Same", "reasons": [], "gpus": CHOSEN}


def test_newest_pod_of_a_gpujob_is_explained(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{JOBS}/bert"] = {"metadata": {"namespace": "default", "name": "bert"}}
    api.lists[PODS] = [
        of_job("bert-old", "2026-01-01T00:00:00Z"),
        of_job("bert-new", "2026-01-02T00:00:00Z"),
        TRAIN,
    ]
    for name in ("bert", "gpujob/bert", "gj/bert"):
        found = gputopo(f"explain {name} -o json").document
        assert (found["pod"]["name"], found["gpuJob"]) == ("bert-new", "bert")


def test_placed_pod_of_an_ensemble_names_it(api: StaticApi, gputopo: Command) -> None:
    document = placed_pod(2, name="search-slow")
    document["metadata"]["labels"] = {"gputopo.io/ensemble": "search"}
    api.objects[f"{PODS}/search-slow"] = document
    assert re.search(
        r"\nensemble +search +the plan of this GPUEnsemble chose the node and the number of GPUs\n",
        gputopo("explain search-slow").out,
    )


def test_name_of_an_ensemble_gets_the_command_for_it(api: StaticApi, gputopo: Command) -> None:
    api.objects[ENSEMBLE] = {"metadata": {}}
    wrong = "gputopo: name: 'search' is not the name of a pod or a GPUJob in namespace default; "
    done = gputopo("explain search")
    remedy = "it is a GPUEnsemble: use gputopo ensemble status search\n"
    assert done == Done(2, "", wrong + remedy)
    api.forbid(ENSEMBLE, "forbidden")
    assert gputopo("explain search").err == wrong + "use --namespace for another namespace\n"


def test_replay_that_differs_has_exit_status_3(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = altered(TRAIN, replay={"gpus": [1, 2, 4]}, aggregateMBps=1)
    done = gputopo("explain train")
    assert done.status == 3
    assert "replay       DIFFERENT: the recorded input does not give what was recorded: GPUs" in (
        done.out
    )


def test_every_difference_has_a_line(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = altered(TRAIN, preservedMBps=1, aggregateMBps=1)
    checks = gputopo("explain train").out.partition("CHECK ")[2].splitlines()
    lines = [line for line in checks if line.startswith("replay ")]
    assert len(lines) == 2
    assert lines[1] == "replay       preservedMBps: recorded 1; the replay computes 112000"


def test_pod_of_an_older_version_shows_what_is_unknown(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = of_an_older_version(TRAIN)
    done = gputopo("explain train")
    assert done.status == 0
    assert "pattern      Ring       unknown: an older version of gputopo did not record" in done.out
    assert "other nodes  unknown\n" in done.out
    assert "replay       unknown: an older version of gputopo placed the pod" in done.out
    assert "kubelet      the pod has exactly the intended GPUs" in done.out


def test_other_nodes_of_a_pod_that_a_new_leader_bound_are_unknown(
    api: StaticApi, gputopo: Command
) -> None:
    api.objects[f"{PODS}/train"] = placed_pod(3, busy=[0, 3], nodes=None)
    assert (
        "other nodes  unknown: another scheduler pod became leader" in gputopo("explain train").out
    )


def test_observed_gpus_that_differ_are_listed(api: StaticApi, gputopo: Command) -> None:
    used = {4: "uid-train", 5: "uid-train"}
    api.objects[f"{TOPOLOGIES}/n1"] = topology_object("n1", DGX1, used_by=used)
    out = gputopo("explain train").out
    assert "kubelet      GPU 4: as intended\n" in out
    assert "kubelet      GPUs 6, 7: not observed\n" in out
    assert "kubelet      GPU 5: not intended\n" in out


def test_pod_that_has_ended_is_explained(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = placed_pod(3, phase="Succeeded")
    assert "pod          has ended: Succeeded\n" in gputopo("explain train").out


def test_pod_that_kubelet_rejected_has_kubelets_message(api: StaticApi, gputopo: Command) -> None:
    document = placed_pod(3, phase="Failed")
    document["status"] |= {"reason": "UnexpectedAdmissionError", "message": "GPU 4 is unhealthy"}
    api.objects[f"{PODS}/train"] = document
    shown = "UnexpectedAdmissionError: GPU 4 is unhealthy"
    assert gputopo("explain train -o json").document["rejected"] == shown
    assert f"pod          kubelet rejected the pod: {shown}\n" in gputopo("explain train").out


def test_pod_of_one_gpu_has_no_bandwidth(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = placed_pod(1)
    out = gputopo("explain train").out
    assert out.startswith("pod default/train: GPU ")
    assert "\nbandwidth" not in out


def test_node_without_topology_leaves_indices_unknown(api: StaticApi, gputopo: Command) -> None:
    del api.objects[f"{TOPOLOGIES}/n1"]
    done = gputopo("explain train")
    assert done.status == 0
    assert DGX1.gpus[4].uuid in done.out.splitlines()[0]
    assert "replay       unknown: the node has no GPUTopology any more" in done.out


def test_pod_that_gputopo_did_not_place_is_explained_as_such(
    api: StaticApi, gputopo: Command
) -> None:
    api.objects[f"{PODS}/train"] = pod("train", 2, node="n1")
    out = gputopo("explain train").out
    assert out.startswith("pod default/train: on node n1, GPUs unknown\n")
    assert f"the pod has no annotation {GPUS_ANNOTATION}: gputopo did not place the pod" in out


def test_hostile_annotations_stay_on_their_line(api: StaticApi, gputopo: Command) -> None:
    hostile = altered(TRAIN, reason="x\n\x1b[31mred\u202e")
    hostile["metadata"]["annotations"]["gputopo.io/pattern"] = "\x1b]0;title\x07\nnode n9"
    api.objects[f"{PODS}/train"] = hostile
    out = gputopo("explain train").out
    assert "\x1b" not in out
    assert not any(line.startswith("node n9") for line in out.splitlines())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("explain", "name: is required: NAME, pod/NAME or gpujob/NAME"),
        (
            "explain other",
            "name: 'other' is not the name of a pod or a GPUJob in namespace default;",
        ),
        ("explain pod/other", "name: 'other' is not the name of a pod in namespace default;"),
        ("explain gpujob/train", "name: 'train' is not the name of a GPUJob in namespace default;"),
        (
            "explain train -n ml",
            "name: 'train' is not the name of a pod or a GPUJob in namespace ml",
        ),
        ("explain node/n1", "name: 'node/n1' is not NAME, pod/NAME or gpujob/NAME"),
        ("explain pod/", "name: 'pod/' is not NAME, pod/NAME or gpujob/NAME"),
        ("explain train --topology dgx1-v100", "topology: is allowed with --filename only"),
    ],
)
def test_wrong_arguments_have_exit_status_2(
    api: StaticApi, gputopo: Command, line: str, message: str
) -> None:
    assert api.url
    done = gputopo(line)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message}")


def test_gpujob_without_pod_is_reported(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{JOBS}/bert"] = {"metadata": {"namespace": "default", "name": "bert"}}
    api.lists[PODS] = [TRAIN]
    done = gputopo("explain bert")
    assert done.status == 0
    assert done.out.startswith("gpujob default/bert\nno pod exists yet: ")


def test_missing_permission_is_reported(api: StaticApi, gputopo: Command) -> None:
    api.forbid(f"{PODS}/train", "pods is forbidden")
    assert gputopo("explain train") == Done(2, "", "gputopo: API server: 403: pods is forbidden\n")


@pytest.mark.parametrize("topology", ["object", "list"])
def test_saved_pod_is_explained_without_a_cluster(
    gputopo: Command, save: Save, topology: str
) -> None:
    node = topology_object("n1", DGX1, used_by=dict.fromkeys(CHOSEN, "uid-train"))
    listed = {"kind": "List", "items": [topology_object("n2", DGX1), node]}
    chosen = save("topology.json", {"object": node, "list": listed}[topology])
    done = gputopo(f"explain -f {save('pod.json', TRAIN)} --topology {chosen} -o json")
    assert done.status == 0
    assert done.document["replay"]["verdict"] == "Same"
    assert done.document["choices"]["chosen"]["gpus"] == CHOSEN
    assert [gpu["index"] for gpu in done.document["gpus"]] == CHOSEN
    assert {gpu["state"] for gpu in done.document["gpus"]} == {"as intended"}


def test_saved_pod_without_cluster_and_topology_names_both_remedies(
    gputopo: Command, save: Save
) -> None:
    done = gputopo(f"explain -f {save('pod.json', TRAIN)}")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "gputopo: kubeconfig: /nonexistent/kubeconfig not found; set KUBECONFIG to the kubeconfig"
        " of a cluster; or give the node's topology with --topology FILE\n"
    )


def test_topology_without_uuids_leaves_the_observed_gpus_unknown(
    gputopo: Command, save: Save
) -> None:
    out = gputopo(f"explain -f {save('pod.json', TRAIN)} --topology dgx1-p100").out
    assert "kubelet      GPUs 4, 6, 7: unknown\n" in out
    assert out.startswith("pod default/train: GPUs 4, 6, 7 of node n1\n")


def test_pod_of_a_saved_list_is_selected_by_its_name(
    api: StaticApi, gputopo: Command, save: Save
) -> None:
    assert api.url
    pods = save("pods.json", {"kind": "List", "items": [TRAIN, placed_pod(name="other"), "x"]})
    assert gputopo(f"explain pod/train -f {pods}").out == SCREEN
    assert gputopo(f"explain -f {pods}") == Done(
        2, "", f"gputopo: filename: {pods!r} has 2 pods; one is needed\n"
    )
    assert gputopo(f"explain third -f {pods}").err == (
        f"gputopo: filename: {pods!r} has 0 pods named 'third'; one is needed\n"
    )


@pytest.mark.parametrize("text", ["[1]", "a: b", "{}", '{"kind": "List", "items": 3}', "x: [", "{"])
def test_file_without_a_pod_is_rejected(
    gputopo: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pod").write_text(text)
    done = gputopo("explain -f pod")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: filename: 'pod' ")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("metadata", {"name": "train"}, "pod metadata.uid: is required"),
        ("spec", [], "pod spec: []: "),
        ("status", {"conditions": 3}, "pod status.conditions: 3: "),
    ],
)
def test_file_with_an_invalid_pod_is_rejected_with_the_field(
    gputopo: Command, save: Save, part: str, value: object, message: str
) -> None:
    path = save("pod.json", TRAIN | {part: value})
    done = gputopo(f"explain -f {path} --topology dgx1-v100")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"gputopo: {message}")


def test_labels_that_are_a_list_are_rejected(gputopo: Command, save: Save) -> None:
    strange = TRAIN | {"metadata": TRAIN["metadata"] | {"labels": ["gputopo.io/job"]}}
    done = gputopo(f"explain -f {save('pod.json', strange)} --topology dgx1-v100")
    assert (done.status, done.out) == (2, "")
    assert "metadata.labels: ['gputopo.io/job']: " in done.err


def test_pending_pod_of_a_file_is_reported_with_the_schedulers_message(
    gputopo: Command, save: Save
) -> None:
    waiting = pod("wait", 2)
    path = save("pod.json", waiting)
    assert gputopo(f"explain -f {path}").err == "gputopo: pod: default/wait is not placed yet\n"
    waiting["status"]["conditions"] = [
        {"type": "PodReadyToStartContainers", "message": "not this one"},
        {"type": "PodScheduled", "message": "0/3 nodes fit"},
    ]
    path = save("pod.json", waiting)
    assert gputopo(f"explain -f {path}").err == (
        "gputopo: pod: default/wait is not placed yet: 0/3 nodes fit\n"
    )


def test_list_of_other_nodes_is_no_topology_of_the_pod(gputopo: Command, save: Save) -> None:
    others = [topology_object(name, DGX1) for name in ("n2", "n3")]
    topology = save("topology.json", {"kind": "List", "items": others})
    done = gputopo(f"explain -f {save('pod.json', TRAIN)} --topology {topology}")
    assert done.status == 2
    assert "items: 2 objects, not one GPUTopology" in done.err


def test_invalid_topology_of_a_file_is_rejected(gputopo: Command, save: Save) -> None:
    broken = topology_object("n1", DGX1)
    del broken["spec"]["links"][0]
    topology = save("topology.json", broken)
    done = gputopo(f"explain -f {save('pod.json', TRAIN)} --topology {topology}")
    assert done.status == 2
    assert done.err.startswith(f"gputopo: topology: {topology!r}: links[]: ")


UTILITY = """\
TERM           WEIGHT  CHOSEN  NEXT BEST  COST
communication    34 %   1.000      1.000  path length 2; best 2, worst 104
interference     33 %   0.369      0.265  half the sum of the slowdowns 38 %; best 0 %, worst 60 %
                                          beside default/noisy: slows the pod by 24 % (Measured),\
 is slowed by 10 % (Measured)
                                          beside a workload without a known slowdown: slows the\
 pod by 17 % (All), is slowed by 17 % (All)
                                          beside default/far on another socket: slows the pod by\
 3 % (Measured), is slowed by 0 % (Measured)
fragmentation    33 %   1.000      0.835  free part of its sockets 0 %; best 0 %, worst 75 %
utility                 0.792      0.703  for the job 0.598, at least 0.5
"""


def test_pod_placed_by_utility_shows_its_terms(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = pod_by_utility()
    shown = gputopo("explain train").out
    assert UTILITY in shown
    assert "least utility  50 %       annotation gputopo.io/min-utility-percent\n" in shown
    assert "DIFFERENCE  UTILITY\n" in shown
    found = gputopo("explain train -o json").document["choices"]
    assert found["chosen"]["utilityPermille"] == 792
    utility = found["utility"]
    assert (utility["utilityPermille"], utility["nextBestPermille"]) == (792, 703)
    assert (utility["jobUtilityPermille"], utility["minimumPercent"]) == (598, 50)
    assert utility["terms"][1] == {
        "name": "interference",
        "weightPercent": 33,
        "permille": 369,
        "nextBestPermille": 265,
        "cost": "half the sum of the slowdowns 38 %; best 0 %, worst 60 %",
    }
    assert utility["beside"][2] == {
        "workload": "default/far",
        "sameSocket": False,
        "sufferedPercent": 3,
        "sufferedFrom": "Measured",
        "causedPercent": 0,
        "causedFrom": "Measured",
    }


def test_only_set_by_utility_has_no_next_best(api: StaticApi, gputopo: Command) -> None:
    api.objects[f"{PODS}/train"] = placed_pod(8, annotations={"gputopo.io/policy": "Utility"})
    shown = gputopo("explain train").out
    [line] = [line for line in shown.splitlines() if line.startswith("utility ")]
    assert line.split()[2:] == ["-", "for", "the", "job", "1.000"]
    assert gputopo("explain train -o json").document["choices"]["utility"]["minimumPercent"] is None
