"""The image of the page runs as the chart runs it: a read-only root, and only its user's rights.

Its file system is unpacked, so no container engine is needed. It serves a real API server with the
token of the chart's service account.
"""

import json
import os
import re
import shlex
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from imagereport.__main__ import archives
from localcluster import binaries, releases
from localcluster.progress import Progress
from localcluster.settings import current_paths
from support.control_plane import api_server
from support.control_plane.api_server import ApiServer, process
from support.control_plane.scheduler_pairs import put_nodes, wait_until
from support.helm_chart import Helm
from support.ports import free_ports

ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """An image in a folder.

    Attributes:
        root: its file system.
        command: its entry point.
        user: number of the user and of the group.
        variables: its environment.
    """

    root: Path
    command: Sequence[str]
    user: str
    variables: Mapping[str, str]

    def argv(self, *options: str, **variables: str) -> list[str]:
        """Return the command that runs the image without a writable file."""
        values = (f"{name}={value}" for name, value in {**self.variables, **variables}.items())
        program = shlex.join(
            [
                *("chroot", f"--userspec={self.user}", str(self.root)),
                *("/usr/bin/env", "--ignore-environment", *values, *self.command, *options),
            ]
        )
        root = shlex.quote(str(self.root))
        mounted = f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
        return ["unshare", "--mount", "sh", "-c", f"{mounted} && exec {program}"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> UnpackedImage:
    root = tmp_path_factory.mktemp("image")
    root.chmod(0o755)  # it belongs to root
    with tarfile.open(archives()["web"]) as archive:
        (manifest,) = json.load(_open(archive, "manifest.json"))
        config = json.load(_open(archive, manifest["Config"]))["config"]
        for layer in manifest["Layers"]:
            # Python has extraction filters since 3.11.4 only.
            unpack = ["tar", "--extract", f"--directory={root}"]
            subprocess.run(unpack, input=_open(archive, layer).read(), check=True)
    (root / ACCOUNT).mkdir(parents=True)
    variables = dict(each.split("=", 1) for each in config["Env"])
    return UnpackedImage(root, config["Entrypoint"], config["User"], variables)


def _open(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServer, Path]]:
    """Return an API server with the chart and two nodes, and the folder of its certificate."""
    release = releases.choose(os.environ.get("GPUTOPO_KUBERNETES"), None, releases.supported())
    programs = binaries.ensure(release, current_paths(), Progress())
    folder = tmp_path_factory.mktemp("server")
    with api_server.running(programs, folder) as found:
        helm = Helm(programs / "helm", tmp_path_factory.mktemp("helm"))
        helm.install(found.kubeconfig, {"web": {"enabled": True}})
        put_nodes(found, 2)
        yield found, folder


def run(image: UnpackedImage, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(image.argv(*options), capture_output=True, text=True, check=False)


def test_the_entry_point_prints_its_options(image: UnpackedImage) -> None:
    done = run(image, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: gputopo-web")


def test_without_a_service_account_the_program_says_what_is_missing(image: UnpackedImage) -> None:
    done = run(image)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "gputopo-web: service account: Service host/port is not set;"
        " run this in a pod with a service account\n"
    )


def test_the_image_serves_the_page_with_the_service_account(
    image: UnpackedImage, server: tuple[ApiServer, Path], tmp_path: Path
) -> None:
    found, folder = server
    config = json.loads(found.kubeconfig_of("gputopo-web", tmp_path / "kubeconfig").read_text())
    (image.root / ACCOUNT / "token").write_text(config["users"][0]["user"]["token"])
    certificate = (folder / "apiserver.crt").read_text()
    (image.root / ACCOUNT / "ca.crt").write_text(certificate)
    address = re.fullmatch(r"https://([\d.]+):(\d+)", config["clusters"][0]["cluster"]["server"])
    assert address is not None
    variables = {"KUBERNETES_SERVICE_HOST": address[1], "KUBERNETES_SERVICE_PORT": address[2]}
    [port] = free_ports(1)
    log = tmp_path / "page.log"

    def get(path: str) -> str:
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                return str(response.read().decode())
        except OSError:
            assert running.poll() is None, log.read_text()
            return ""

    options = ("--host=127.0.0.1", f"--port={port}", "--installation-namespace=gputopo-system")
    with process(image.argv(*options, **variables), log) as running:
        wait_until(lambda: get("/readyz") == "ok\n", seconds=60)
        wait_until(lambda: 'id="node-node-1"' in get("/"), seconds=30)
        assert "The pod would get GPUs" in get("/what-if?gpus=3&pattern=Ring")
        assert ":root {" in get("/static/web.css")
        of_process = Path(f"/proc/{running.pid}")
        assert "Uid:\t65532\t65532" in (of_process / "status").read_text()
        mounts = [line.split() for line in (of_process / "mountinfo").read_text().splitlines()]
    assert [words[5].split(",")[0] for words in mounts if words[4] == "/"] == ["ro"]
    assert f"serving url=http://127.0.0.1:{port}/" in log.read_text()
    assert "ERROR" not in log.read_text()
