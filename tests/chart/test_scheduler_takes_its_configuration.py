"""The rendered configuration, read by the real kube-scheduler."""

import json
import subprocess
import urllib.error
from pathlib import Path

import pytest
import yaml

from support.builders.objects import Document
from support.control_plane.api_server import ApiServer, process
from support.control_plane.scheduler_pairs import read_url, wait_until
from support.helm_chart import Helm, find
from support.ports import free_ports

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


@pytest.fixture
def configuration(server: ApiServer, helm: Helm) -> Document:
    """The configuration of the chart, with the API server of the tests."""
    text = find(helm.render(), "ConfigMap", "gputopo-scheduler")["data"]["config.yaml"]
    document: Document = yaml.safe_load(text)
    document["clientConnection"]["kubeconfig"] = str(server.kubeconfig)
    return document


def test_kube_scheduler_uses_every_value_of_the_configuration(
    configuration: Document, kubernetes_binaries: Path, tmp_path: Path
) -> None:
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
    assert read["enableProfiling"] is False
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


def test_kube_scheduler_serves_no_profiles(
    server: ApiServer, configuration: Document, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    # It may write no Lease there, so it remains a standby and leaves the pods of other tests alone.
    access = server.kubeconfig_of("gputopo-extender", tmp_path / "extender")
    configuration["clientConnection"]["kubeconfig"] = str(access)
    configuration["leaderElection"]["resourceNamespace"] = "default"
    given = tmp_path / "config.json"
    given.write_text(json.dumps(configuration))
    (port,) = free_ports(1)
    words = [str(kubernetes_binaries / "kube-scheduler"), f"--config={given}"]
    words += [f"--secure-port={port}", f"--cert-dir={tmp_path}"]
    words += [f"--{part}-kubeconfig={access}" for part in ("authentication", "authorization")]

    def status(path: str) -> int:
        try:
            read_url(f"https://127.0.0.1:{port}/{path}", server.kubeconfig)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
        return 200

    with process(words, tmp_path / "scheduler.log"):
        wait_until(lambda: status("metrics") == 200, seconds=60)
        assert status("debug/pprof/") == 404
        assert status("debug/flags/v") == 404
