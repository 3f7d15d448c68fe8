"""Upgrade, rollback, mixed versions and removal with Helm on a real API server without nodes.

``tools/upgrade`` does the same on the local cluster with pods that use GPUs. The previous version
here is this chart with the values of revision 4a77908e, and without the newest templates and one
field of a CRD.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.settings import CLONE
from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl, Object
from support.control_plane import api_server
from support.control_plane.api_server import PROFILES, ApiServer, service_account
from support.helm_chart import Helm as HelmOfTests
from support.helm_chart import HelmError
from upgradetest import cleanup, inspect
from upgradetest.helm import RELEASE, Helm, HelmFailedError
from upgradetest.mixed import AGENT, SCHEDULER, mixed_version
from upgradetest.previous import COMPONENTS, Version

OLD_VALUES = CLONE / "tests" / "data" / "chart-values-4a77908e.yaml"
TEMPLATES_SINCE_THEN = ("tests", "validation.yaml", "servicemonitors.yaml")
OPERATOR = service_account("gputopo-operator")
KEPT = "--measure-publish-seconds=31"
WORKLOADS = (
    ("deployment", "gputopo-operator"),
    ("deployment", "gputopo-scheduler"),
    ("daemonset", "gputopo-deviceplugin"),
)


def images(tag: str) -> dict[str, str]:
    return {name: f"localhost/{name.lower()}:{tag}" for name in (*COMPONENTS, "scheduler")}


def previous_version(folder: Path) -> Version:
    """Return this chart with old values, and without the newest templates and a field of a CRD."""
    chart = folder / "charts" / "gputopo"
    shutil.copytree(CLONE / "charts" / "gputopo", chart)
    for name in TEMPLATES_SINCE_THEN:
        path = chart / "templates" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copy(OLD_VALUES, chart / "values.yaml")
    remove_field(chart / "files" / "crds" / "gpuprofiles.gputopo.io.yaml")
    return Version(folder, images("1"))


def remove_field(definition: Path) -> None:
    document = yaml.safe_load(definition.read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["podAnnotation"]
    definition.write_text(yaml.safe_dump(document))


class Installation:
    """One API server, the two versions, and helm."""

    def __init__(self, server: ApiServer, binaries: Path, folder: Path) -> None:
        self.server = server
        self.kubectl = Kubectl(binaries / "kubectl", server.kubeconfig, folder / "cache")
        self.helm = Helm(self.kubectl, waits=False)
        self.old = previous_version(folder / "old")
        self.new = Version(CLONE, images("2"))
        self.folder = folder

    def containers(self) -> list[Object]:
        """Return the containers of all pods."""
        pods = [
            self.kubectl.get(kind, name, NAMESPACE)["spec"]["template"]["spec"]
            for kind, name in WORKLOADS
        ]
        return [
            each for pod in pods for each in [*pod.get("initContainers", []), *pod["containers"]]
        ]

    def images(self) -> dict[str, str]:
        """Return the image of each container."""
        return {each["name"]: each["image"] for each in self.containers()}

    def is_of(self, version: Version) -> bool:
        """Whether CRDs and images are those of a version, and the user's value is kept."""
        assert [*inspect.wrong_definitions(self.kubectl, version)] == []
        assert sorted(self.images().values()) == sorted(version.images.values())
        arguments = [word for each in self.containers() for word in each.get("args", [])]
        assert not [word for word in arguments if word.endswith("=")], "a value is missing"
        return inspect.agents_have_argument(self.kubectl, KEPT)


@pytest.fixture(scope="module")
def installation(
    kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("upgrade")
    with api_server.running(kubernetes_binaries, folder) as server:
        installed = Installation(server, kubernetes_binaries, folder)
        publish = ("--set", "devicePlugin.measuring.publishSeconds=31")
        installed.helm.install(installed.old, *publish)
        yield installed


def test_release_goes_through_upgrade_rollback_and_mixed_versions(
    installation: Installation,
) -> None:
    helm, old, new = installation.helm, installation.old, installation.new
    assert helm.exists()
    assert installation.is_of(old)
    helm.upgrade(new)
    assert installation.is_of(new)
    profile = {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": "newer"},
        "spec": {},
    }
    assert installation.server.create(PROFILES, profile).accepted
    written = {"status": {"podAnnotation": "facts", "sampleCount": 3}}
    assert installation.server.merge(f"{PROFILES}/newer/status", written, OPERATOR).accepted
    helm.rollback(1)
    assert installation.is_of(old)
    # An older API does not show what only the newer one knows, and keeps everything else.
    status = installation.server.get(f"{PROFILES}/newer").body["status"]
    assert status == {"sampleCount": 3}
    for part in (AGENT, SCHEDULER):
        mixed = mixed_version(new, old, {part}, installation.folder / part)
        helm.upgrade(mixed)
        assert installation.is_of(mixed)
    assert installation.images()["extender"] == old.images["extender"]
    assert installation.images()["deviceplugin"] == new.images["devicePlugin"]
    helm.upgrade(new)
    assert installation.is_of(new)


def test_removal_leaves_nothing_and_default_values_are_enough_afterwards(
    installation: Installation,
) -> None:
    kubectl, helm = installation.kubectl, installation.helm
    assert "clusterroles gputopo-extender" in cleanup.leftovers(kubectl)
    # Nothing deletes the objects of a namespace here, so the namespace stays.
    for kind in ("gpuensembles", "gpujobs"):
        kubectl.run("delete", kind, "--all", "--all-namespaces")
    helm.uninstall()
    definitions = [each for each in cleanup.leftovers(kubectl) if "CRD" in each]
    assert len(definitions) == len(installation.new.definitions) == 4, (
        "helm uninstall keeps the objects of users"
    )
    kubectl.run("delete", "customresourcedefinition", *cleanup.DEFINITIONS)
    assert cleanup.leftovers(kubectl) == []
    assert not helm.exists()
    helm.install(installation.new)
    assert [*inspect.wrong_definitions(kubectl, installation.new)] == []


def test_definition_of_another_version_is_found(installation: Installation) -> None:
    helm, new = installation.helm, installation.new
    helm.install(new)
    wrong = [*inspect.wrong_definitions(installation.kubectl, installation.old)]
    assert wrong == [
        "CRD gpuprofiles.gputopo.io: the field .status.podAnnotation is of another version"
    ]


def test_change_of_the_resource_is_rejected_while_agents_offer_the_old_one(
    installation: Installation,
) -> None:
    helm, kubectl, chart = installation.helm, installation.kubectl, str(installation.new.chart)
    agents = ("daemonset", "gputopo-deviceplugin")
    for old, new in (("gputopo.io/gpu", "example.com/gpu"), ("example.com/gpu", "gputopo.io/gpu")):
        change = ("upgrade", RELEASE, chart, "--reuse-values", f"--set=resourceName={new}")
        with pytest.raises(HelmFailedError, match=f"offer {old}, .*kubectl delete daemonset"):
            helm.run(*change)
        assert inspect.agents_have_argument(kubectl, f"--resource={old}")
        kubectl.run("delete", *agents, f"--namespace={NAMESPACE}")
        helm.run(*change)
        assert inspect.agents_have_argument(kubectl, f"--resource={new}")
        helm.run(*change)


@pytest.mark.parametrize(
    ("release", "namespace"),
    [("second", NAMESPACE), (RELEASE, "elsewhere"), ("third", "elsewhere")],
)
def test_second_installation_is_rejected(
    installation: Installation, helm: HelmOfTests, release: str, namespace: str
) -> None:
    name = f"--set=crds.install=false,fullnameOverride=other-{release}"
    access = (f"--kubeconfig={installation.server.kubeconfig}", "--create-namespace")
    chart = str(installation.new.chart)
    with pytest.raises(HelmError, match=f"release {RELEASE} in namespace {NAMESPACE}"):
        helm.run("install", release, chart, f"--namespace={namespace}", name, *access)


def test_installation_that_helm_does_not_own_is_found_by_its_label(
    installation: Installation, helm: HelmOfTests
) -> None:
    kubectl = installation.kubectl
    installation.helm.uninstall()
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "applied-operator",
            "labels": {
                "app.kubernetes.io/part-of": "gputopo",
                "app.kubernetes.io/instance": "applied",
                "app.kubernetes.io/component": "operator",
            },
        },
        "rules": [],
    }
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert installation.server.create(roles, role).accepted
    with pytest.raises(HelmError, match="release applied in namespace"):
        helm.install(installation.server.kubeconfig)
    helm.install(installation.server.kubeconfig, {"checkInstalled": False})
    kubectl.run("delete", "clusterrole", "applied-operator")
    helm.install(installation.server.kubeconfig)
