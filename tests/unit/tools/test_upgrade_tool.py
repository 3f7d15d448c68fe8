"""What ``tools/upgrade`` creates, compares and reports."""

import copy
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gputopo.api.names import RESOURCE
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_explain.placed.replay import Replay, ReplayVerdict
from localcluster import images
from localcluster.errors import ClusterError
from localcluster.settings import CLONE
from upgradetest import definitions, explained, helm, previous, report, snapshot, workloads
from upgradetest.mixed import AGENT, SCHEDULER, mixed_version
from upgradetest.previous import Version

Object = dict[str, Any]
CRD = yaml.safe_load((CLONE / "crds" / "gpujobs.gputopo.io.yaml").read_text())
NEW = {"operator": "o:2", "extender": "e:2", "devicePlugin": "d:2", "scheduler": "s:1"}
OLD = {"operator": "o:1", "extender": "e:1", "devicePlugin": "d:1", "scheduler": "s:1"}


def running_pod(name: str = "a", **changes: Any) -> Object:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {"gputopo.io/gpus": "{}", "gputopo.io/placement": "{}", "x": "y"},
        },
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "containerID": "containerd://1",
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        },
        **changes,
    }


def gpus_of(manifest: Object) -> int:
    spec = manifest["spec"]
    if manifest["kind"] == "GPUJob":
        return int(GPUJobSpec.model_validate(spec).gpus_per_replica)
    pod = spec["template"]["spec"] if manifest["kind"] == "Deployment" else spec
    (container,) = pod["containers"]
    return int(container["resources"]["limits"][RESOURCE]) * int(spec.get("replicas", 1))


def test_eight_pods_of_all_kinds_leave_gpus_for_new_ones() -> None:
    kept = workloads.kept_workloads("busybox")
    pods = sum(manifest["spec"].get("replicas", 1) for manifest in kept)
    assert pods == workloads.POD_COUNT == 8
    assert {manifest["kind"] for manifest in kept} == {"Pod", "Deployment", "GPUJob"}
    used = sum(map(gpus_of, kept))
    for more in (
        workloads.new_workloads("busybox", "new"),
        workloads.transition_workloads("busybox", "during"),
    ):
        assert used + sum(map(gpus_of, more)) <= 24, "three nodes of 8 GPUs"


def test_unchanged_pod_has_no_changes() -> None:
    assert [
        *snapshot.changes(snapshot.record([running_pod()]), snapshot.record([running_pod()]))
    ] == []


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("metadata", "uid"), "other", "uid"),
        (("metadata", "annotations", "gputopo.io/gpus"), "[]", "annotations"),
        (("spec", "nodeName"), "n2", "node"),
        (("status", "phase"), "Failed", "phase"),
        (("status", "containerStatuses", 0, "restartCount"), 1, "containers"),
        (("status", "containerStatuses", 0, "containerID"), "containerd://2", "containers"),
        (("status", "containerStatuses", 0, "state"), {}, "containers"),
    ],
)
def test_every_trace_of_a_restart_or_a_new_placement_is_a_change(
    path: tuple[Any, ...], value: object, named: str
) -> None:
    changed = running_pod()
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    before = snapshot.record([running_pod()])
    (line,) = snapshot.changes(before, snapshot.record([changed]))
    assert line.startswith(f"pod a: {named} was ")


def test_pods_that_are_gone_or_new_are_changes() -> None:
    before, now = snapshot.record([running_pod("a")]), snapshot.record([running_pod("b")])
    assert [*snapshot.changes(before, now)] == ["pod a is gone", "pod b is new"]


def test_defaults_of_the_api_server_are_no_difference() -> None:
    found = copy.deepcopy(CRD)
    found["spec"]["conversion"] = {"strategy": "None"}
    assert [*definitions.differences(CRD["spec"], found["spec"])] == []
    assert [*definitions.undefined_fields(CRD, found)] == []


def test_definition_of_another_version_differs() -> None:
    older, newer = copy.deepcopy(CRD), copy.deepcopy(CRD)
    schema = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["flavour"] = {
        "type": "array",
        "items": {"type": "object", "properties": {"sweet": {"type": "boolean"}}},
    }
    schema["properties"]["kind"]["type"] = "integer"
    missing, changed = sorted(definitions.differences(newer["spec"], older["spec"], "spec"))
    assert missing.endswith("properties.kind.type is 'string', not 'integer'")
    assert changed.endswith("properties.flavour is missing")
    assert [*definitions.undefined_fields(older, newer)] == [
        ".spec.flavour",
        ".spec.flavour[].sweet",
    ]
    shorter = copy.deepcopy(CRD)
    shorter["spec"]["versions"] = []
    (line,) = definitions.differences(CRD["spec"], shorter["spec"], "spec")
    assert line.startswith("spec.versions is [], not [{'name': 'v1alpha1'")
    assert line.endswith("...")


def version_of(folder: Path, images_: Mapping[str, str], text: str) -> Version:
    templates = folder / "charts" / "gputopo" / "templates"
    templates.mkdir(parents=True)
    for name in ("deviceplugin", "scheduler", "scheduler-config", "operator", "_helpers"):
        (templates / f"{name}.yaml").write_text(text)
    (folder / "crds").mkdir()
    (folder / "crds" / "x.yaml").write_text(text)
    (folder / "charts" / "gputopo" / "files").mkdir()
    (folder / "charts" / "gputopo" / "files" / "crds").symlink_to("../../../crds")
    return Version(folder, images_)


@pytest.mark.parametrize(
    ("part", "templates", "kept"),
    [
        (AGENT, {"deviceplugin"}, {"devicePlugin": "d:1"}),
        (SCHEDULER, {"scheduler", "scheduler-config"}, {"extender": "e:1"}),
    ],
)
def test_mixed_version_has_old_pods_of_one_part_and_new_objects_otherwise(
    tmp_path: Path, part: str, templates: set[str], kept: dict[str, str]
) -> None:
    old = version_of(tmp_path / "old", OLD, "old")
    new = version_of(tmp_path / "new", NEW, "new")
    mixed = mixed_version(new, old, {part}, tmp_path / "mixed")
    found = {path.stem: path.read_text() for path in (mixed.chart / "templates").iterdir()}
    assert {name for name, text in found.items() if text == "old"} == templates
    assert mixed.images == NEW | kept
    assert [path.read_text() for path in mixed.definitions] == ["new"]


def test_real_chart_can_be_mixed_with_itself(tmp_path: Path) -> None:
    current = Version(CLONE, NEW)
    mixed = mixed_version(current, current, {AGENT, SCHEDULER}, tmp_path / "mixed")
    assert [path.name for path in mixed.definitions] == [path.name for path in current.definitions]
    assert len(mixed.definitions) == 4


def component_pod(name: str = "a", *, ready: str = "True", **images_: str) -> Object:
    chosen = {"extender": "e:1", "kube-scheduler": "s:1", **images_}
    return {
        "metadata": {"name": name},
        "spec": {
            "initContainers": [{"name": "extender", "image": chosen["extender"]}],
            "containers": [{"name": "kube-scheduler", "image": chosen["kube-scheduler"]}],
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_pods_of_another_version_or_without_readiness_are_waited_for() -> None:
    ends = component_pod("ends")
    ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [
        component_pod("right"),
        component_pod("new", extender="e:2"),
        component_pod("starting", ready="False"),
        ends,
        {**component_pod("created"), "status": {}},
    ]
    assert helm.wrong_pods(pods, OLD) == ["new", "starting", "ends", "created"]


def test_sources_of_the_components_come_from_the_tree(tmp_path: Path) -> None:
    tree = previous.extract("HEAD", tmp_path / "tree")
    (tree / "extender" / "gputopo_extender" / "more.py").write_text("x = 1\n")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "kube-scheduler").write_bytes(b"\0")
    base = images._base()
    own = {name: images._component(name, name, base, CLONE).reference for name in ("extender",)}
    other = images._component("extender", "extender", base, tree)
    assert other.reference != own["extender"]
    assert other.context == tree
    assert other.dockerfile == tree / "Dockerfile"


def test_revision_before_the_page_has_no_image_of_it(tmp_path: Path) -> None:
    tree = previous.extract("HEAD", tmp_path / "tree")
    base = images._base()
    assert [image.name for image in images._page(base, tree)] == ["web"]
    (tree / "Dockerfile.web").unlink()
    assert images._page(base, tree) == []


def test_unknown_revision_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"--from: no-such-revision: .*; name a revision"):
        previous.extract("no-such-revision", tmp_path / "tree")


def test_tree_of_a_revision_has_a_chart_with_its_crds(tmp_path: Path) -> None:
    tree = previous.extract("HEAD", tmp_path / "tree")
    names = [path.name for path in Version(tree, NEW).definitions]
    listed = subprocess.run(
        ["git", "-C", str(CLONE), "ls-tree", "--name-only", "HEAD:crds"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert names == listed.stdout.split()


def test_report_shows_each_state_and_each_problem() -> None:
    good = report.State("upgraded", 12.34, 1, notes=["helm test: 7 checks passed"])
    bad = replace(good, name="rolled back", notes=[], problems=["pod a is gone", "pod b is new"])
    lines = [*report.table("v0.1.0", [good, bad])]
    assert "upgraded                             12.3         1         0" in lines
    assert "rolled back                          12.3         1         2" in lines
    assert "note in 'upgraded': helm test: 7 checks passed" in lines
    assert "problem in 'rolled back': pod b is new" in lines
    document = json.loads(json.dumps(report.document("v0.1.0", [good, bad])))
    assert document["states"][1]["problems"] == ["pod a is gone", "pod b is new"]


def test_explanations_are_counted_by_verdict_and_only_another_choice_is_a_problem() -> None:
    found = {
        "a": Replay(ReplayVerdict.UNKNOWN, ("not recorded",)),
        "b": Replay(ReplayVerdict.SAME),
        "c": Replay(ReplayVerdict.UNKNOWN, ("not recorded",)),
        "d": Replay(ReplayVerdict.DIFFERENT, ("GPUs 0, 1", "pattern Ring")),
    }
    counted = "1 Different: GPUs 0, 1: pattern Ring, 1 Same, 2 Unknown: not recorded"
    assert explained.summary(found) == counted
    assert list(explained.differing(found)) == ["explain d: GPUs 0, 1; pattern Ring"]
