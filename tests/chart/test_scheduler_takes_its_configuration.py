"""The rendered configuration, read by the real kube-scheduler."""

import json
import subprocess
from pathlib import Path

import yaml

from support.control_plane.api_server import ApiServer
from support.helm_chart import Helm, find

# docs/operate/scheduling.md weighs the extender's steps against these.
DOCUMENTED_WEIGHTS = {
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "InterPodAffinity": 2,
}


def test_kube_scheduler_uses_every_value_of_the_configuration(
    server: ApiServer, helm: Helm, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    text = find(helm.render(), "ConfigMap", "gputopo-scheduler")["data"]["config.yaml"]
    configuration = yaml.safe_load(text)
    configuration["clientConnection"]["kubeconfig"] = str(server.kubeconfig)
    given, understood = tmp_path / "config.json", tmp_path / "understood.yaml"
    given.write_text(json.dumps(configuration))

    # It writes what it understood and ends; unknown fields and wrong plugin arguments are errors.
    program = str(kubernetes_binaries / "kube-scheduler")
    words = [program, f"--config={given}", f"--write-config-to={understood}", "--secure-port=0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr

    read = yaml.safe_load(understood.read_text())
    (written,), (extender,) = configuration["extenders"], read["extenders"]
    assert extender == {
        **{key: value for key, value in written.items() if value is not False},
        "managedResources": [{"name": "gputopo.io/gpu"}],
    }, "false values are omitted, the others are unchanged"
    assert read["leaderElection"]["resourceName"] == "gputopo-scheduler"
    (profile,) = read["profiles"]
    arguments = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert arguments["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [{"name": "gputopo.io/gpu", "weight": 1}],
    }
    disabled = {each["name"] for each in profile["plugins"]["score"]["disabled"]}
    assert disabled == {"NodeResourcesBalancedAllocation", "ImageLocality"}
    weights = {each["name"]: each["weight"] for each in profile["plugins"]["multiPoint"]["enabled"]}
    assert DOCUMENTED_WEIGHTS.items() <= weights.items()
