"""Start, inspect and remove the whole cluster."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localcluster import (
    binaries,
    controlplane,
    fakegpus,
    files,
    hostchanges,
    images,
    network,
    node,
    nodeimages,
    numa,
    pki,
    preflight,
    releases,
    state,
    status,
)
from localcluster.api import ApiClient, wait_until
from localcluster.errors import ClusterError
from localcluster.images import Image
from localcluster.localnodes import LocalNodes
from localcluster.processes import ProcessFiles
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import CLONE, Paths
from localcluster.state import Record
from localcluster.status import Status

_READY_SECONDS = 120.0


class Cluster:
    """The one cluster of a state folder.

    Attributes:
        nodes: its nodes as machines.
    """

    def __init__(self, paths: Paths, progress: Progress) -> None:
        self._paths = paths
        self._progress = progress
        self._files = ProcessFiles(paths.state / "processes")
        self.nodes = LocalNodes(paths)

    def up(self, servers: dict[str, str], kubernetes: str | None = None) -> None:
        """Start the cluster, or complete a start that was interrupted.

        Args:
            servers: see fakegpus.
            kubernetes: version, as a user gives it; None for that of the running cluster, or the
                default version.

        Raises:
            ClusterError: the machine is not fit, another cluster runs, or a part did not start.
        """
        preflight.require_root()
        with files.locked(self._paths.lock):
            state.claim(self._paths)
            preflight.check(self._paths)
            record = state.read(self._paths)
            running = state.programs_of(record)
            version = releases.built_version(running) if running else None
            release = releases.choose(kubernetes, version, releases.supported())
            programs = binaries.ensure(release, self._paths, self._progress)
            if record is not None and not self._paths.binaries.is_symlink():
                self._progress.note("an earlier start did not get far; its remains are removed")
                self._remove(record)
                record = None
            if record is not None:
                if reason := state.difference(record, programs, servers):
                    raise ClusterError(state.conflict_message(record, reason))
                self._progress.note(
                    f"using the running cluster, which was started from {record.clone}"
                )
            built = images.ensure(self._paths, programs, self._progress)
            self._start(record or self._prepare(release, programs, servers, built), built)

    def down(self) -> None:
        """Remove the cluster and all its changes; without a cluster do nothing.

        Raises:
            ClusterError: the state folder is not that of a cluster.
        """
        preflight.require_root()
        if not self._paths.state.exists():
            return
        with files.locked(self._paths.lock), self._progress.stage("Remove the cluster"):
            state.claim(self._paths)
            record = state.read(self._paths)
            if record is not None:
                self._remove(record)
            files.remove(self._paths.state)

    def status(self) -> Status:
        """State of the cluster. Raises a ClusterError if there is no cluster."""
        record = self.record()
        return status.read(record, self._paths, self._files)

    def record(self) -> Record:
        """The running cluster's record. A ClusterError when there is none, or without root."""
        return state.running(self._paths)

    def images(self, tree: Path = CLONE) -> list[Image]:
        """Build the images; load new ones into the nodes, if the cluster is up.

        Args:
            tree: folder with the sources of the components.
        """
        preflight.require_root()
        record = state.read(self._paths)
        programs = state.programs_of(record)
        if programs is None:
            release = releases.choose(None, None, releases.supported())
            programs = binaries.ensure(release, self._paths, self._progress)
        built = images.ensure(self._paths, programs, self._progress, tree)
        if record is not None:
            with files.locked(self._paths.lock):
                self._load_missing(record, built)
        return built

    def set_part(self, part: str, *, on: bool) -> None:
        """Kill one process of the control plane, or start it again and wait until it serves.

        Raises:
            ClusterError: there is no such part.
        """
        record = self.record()
        if part not in controlplane.PARTS:
            raise ClusterError(f"part {part!r}: not one of {', '.join(controlplane.PARTS)}")
        with files.locked(self._paths.lock):
            if on:
                controlplane.start(self._paths, Path(record.binaries), self._files)
            else:
                self._files.end(part, patience_seconds=0)

    def _remove(self, record: Record) -> None:
        for target in record.nodes:
            node.switch_off(target, self._files)
        controlplane.stop(self._files)
        network.remove_bridge()
        others = state.record_file(self._paths).other_sysctls()
        hostchanges.restore_sysctls(record.sysctls, others)
        hostchanges.remove_folders([Path(folder) for folder in record.folders])
        state.clear(self._paths)

    def _prepare(
        self, release: Release, programs: Path, servers: dict[str, str], built: Sequence[Image]
    ) -> Record:
        mount_points = list(hostchanges.MOUNT_POINTS.values())
        made = hostchanges.missing_folders(mount_points)
        record = Record(
            clone=str(CLONE),
            binaries=str(programs),
            servers=servers,
            sysctls=hostchanges.original_sysctls(
                hostchanges.KUBELET_SYSCTLS, state.record_file(self._paths).other_sysctls()
            ),
            folders=[str(folder) for folder in made],
        )
        network.check_free()
        template = nodeimages.ensure_template(built, programs, self._paths, self._progress)
        with self._progress.stage("Prepare the nodes' disks, certificates and GPUs"):
            state.write(self._paths, record)
            for folder in mount_points:
                folder.mkdir(parents=True, exist_ok=True)
            self._paths.logs.mkdir(exist_ok=True)
            pki.create(self._paths.pki, record.nodes)
            base_spec = numa.base_spec(numa.default_spec(programs))
            for target in record.nodes:
                folder = self._paths.node(target.name)
                node.install(target, release, self._paths, base_spec)
                nodeimages.install(template, folder / "containerd")
                fakegpus.install(servers, target.name, folder / "gpus")
                numa.install(servers, target.name, folder / "numa")
            # Last: where this link is, everything above is.
            self._paths.binaries.symlink_to(programs)
        return record

    def _start(self, record: Record, built: Sequence[Image]) -> None:
        with self._progress.stage("Start the control plane and the nodes"):
            network.create_bridge()
            with ThreadPoolExecutor() as pool:
                starting = [
                    pool.submit(
                        controlplane.start, self._paths, Path(record.binaries), self._files
                    ),
                    *(pool.submit(self.nodes.start, target, record) for target in record.nodes),
                ]
            for started in starting:
                started.result()
            self._wait_until_usable(record)
        self._load_missing(record, built)

    def _load_missing(self, record: Record, built: Sequence[Image]) -> None:
        running = [each.name for each in record.nodes if self._files.recall(each.name)]
        ctr = (f"{record.binaries}/ctr", "--namespace=k8s.io", "images")

        def list_images(name: str) -> list[str]:
            return self.nodes.run(name, *ctr, "ls", "--quiet").split()

        def load(name: str, image: Image) -> None:
            self.nodes.run(name, *ctr, "import", str(image.archive(self._paths)))

        nodeimages.load_missing(built, running, list_images, load, self._progress)

    def _wait_until_usable(self, record: Record) -> None:
        api = ApiClient(self._paths)
        wanted = {target.name for target in record.nodes}

        def all_ready() -> bool:
            return wanted <= {summary.name for summary in api.nodes() if summary.ready}

        wait_until(all_ready, f"nodes {', '.join(sorted(wanted))} to be Ready", _READY_SECONDS)
        wait_until(api.has_default_account, "the default service account", _READY_SECONDS)
