"""Start, inspect and remove the cluster of kind."""

import os
from collections.abc import Sequence
from pathlib import Path

from kindcluster import checks, creation, nodes, record, settings, sources
from kindcluster.daemon import CREATED_FOLDERS, Daemon
from kindcluster.docker import Docker
from kindcluster.record import KindRecord
from kindcluster.sources import Sources
from kindcluster.status import KindStatus
from localcluster import binaries, files, hostchanges, images, nodeimages, preflight, releases
from localcluster.errors import ClusterError
from localcluster.images import Image
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import CLONE, Paths


class KindCluster:
    """The one cluster of a state folder."""

    def __init__(self, paths: Paths, progress: Progress) -> None:
        self._paths = paths
        self._progress = progress
        self._record_file = record.record_file(paths)
        # Not that of the local cluster, which would wait for the builds; the state is removed under
        # the lock, so it is elsewhere.
        self._lock = settings.LOCKS / paths.state.name
        # Where this file is, the cluster once was ready.
        self._complete = paths.state / "complete"

    @property
    def kubeconfig(self) -> Path:
        """The cluster administrator's kubeconfig, for programs of this machine."""
        return creation.kubeconfig(self._paths)

    def program(self, name: str) -> Path:
        """A program for the running cluster: its own, or that of this machine.

        Raises:
            ClusterError: there is none, or no cluster is up.
        """
        own = self.record().folder_of(name)
        return own / name if own else images.program(name)

    def up(
        self,
        servers: dict[str, str],
        kubernetes: str | None = None,
        image: str | None = None,
        *,
        build: bool = False,
    ) -> None:
        """Start the cluster, or use the running one; bring changed images to its nodes.

        What an interrupted start has left is removed first.

        Args:
            servers: of n1, n2, ...; see fakegpus.
            kubernetes: version, as a user gives it; None for that of the running cluster, or the
                default version.
            image: node image for the Docker of this machine, in place of the published one.
            build: build Docker and the node image even if this machine has Docker.

        Raises:
            ClusterError: the machine is not fit, another cluster runs, or a part did not start.
        """
        preflight.require_root()
        by_container = nodes.by_container(servers)
        with files.locked(self._lock):
            self._record_file.claim()
            running = self._remove_incomplete(self._record_file.read())
            own = record.uses_own_docker(
                running, build=build, machine_has_docker=Docker(os.environ).responds()
            )
            checks.check(self._paths, own_docker=own, starts=running is None)
            version = running.kubernetes if running else None
            release = releases.choose(kubernetes, version, releases.supported())
            if running is not None and not own:
                image = image or running.image
            made_from = sources.ensure(release, image, self._paths, self._progress, own_docker=own)
            if running is None:
                running = self._prepare(release, made_from, servers, own_docker=own)
                self._create(running, release, made_from.archive, by_container)
            elif reason := record.difference(running, made_from.image, servers, build=build):
                raise ClusterError(record.conflict_message(running, reason))
            else:
                self._progress.note(f"using the cluster that was started from {running.clone}")
                self._start_stopped_nodes(running)
            self._load_missing(running, self._built_images(running, CLONE))

    def down(self) -> None:
        """Remove the cluster and all its changes; without a cluster do nothing.

        Raises:
            ClusterError: the state folder is not that of a cluster.
        """
        preflight.require_root()
        if not self._paths.state.exists():
            return
        with files.locked(self._lock), self._progress.stage("Remove the cluster of kind"):
            self._record_file.claim()
            found = self._record_file.read()
            if found is not None:
                self._remove(found)
            files.remove(self._paths.state)

    def status(self) -> KindStatus:
        """State of the cluster. Raises a ClusterError if there is no cluster."""
        found = self.record()
        docker = self.docker(found)
        containers = docker.nodes() if docker.responds() else {}
        summaries = creation.summaries(docker) if containers.get(settings.CONTROL_PLANE) else []
        return KindStatus(found.kubernetes, found.own_docker, containers, summaries)

    def record(self) -> KindRecord:
        """The running cluster's record. A ClusterError when there is none, or without root."""
        preflight.require_root()
        found = self._record_file.read()
        if found is None:
            raise ClusterError("no cluster of kind is up; start one with `tools/kind up`")
        return found

    def docker(self, running: KindRecord) -> Docker:
        """The Docker of a cluster."""
        if running.own_docker:
            return self._daemon(running).docker
        path = ":".join([*running.programs, os.environ["PATH"]])
        return Docker({**os.environ, "PATH": path})

    def _daemon(self, running: KindRecord) -> Daemon:
        return Daemon(self._paths, [Path(folder) for folder in running.programs])

    def images(self, tree: Path = CLONE) -> list[Image]:
        """Build the images; load new ones into the workers, if the cluster is up.

        Args:
            tree: folder with the sources of the components.
        """
        preflight.require_root()
        running = self._record_file.read()
        built = self._built_images(running, tree)
        if running is not None:
            with files.locked(self._lock):
                self._load_missing(running, built)
        return built

    def _built_images(self, running: KindRecord | None, tree: Path) -> list[Image]:
        programs = running.folder_of("kube-scheduler") if running else None
        if running is None and not Docker(os.environ).responds():
            release = releases.choose(None, None, releases.supported())
            programs = binaries.ensure(release, self._paths, self._progress)
        return images.ensure(self._paths, programs, self._progress, tree)

    def _remove_incomplete(self, found: KindRecord | None) -> KindRecord | None:
        if found is None or self._is_usable(found):
            return found
        self._progress.note("an earlier cluster is not complete; its remains are removed")
        self._remove(found)
        return None

    def _is_usable(self, found: KindRecord) -> bool:
        docker = self.docker(found)
        return self._complete.exists() and docker.responds() and bool(docker.nodes())

    def _remove(self, found: KindRecord) -> None:
        if found.own_docker:
            self._daemon(found).stop()
        else:
            own = f"--kubeconfig={self.kubeconfig}"  # not the user's
            self.docker(found).kind("delete", "cluster", "--name", settings.CLUSTER, own)
        hostchanges.restore_sysctls(found.sysctls, self._record_file.other_sysctls())
        hostchanges.remove_folders([Path(folder) for folder in found.folders])
        self._record_file.clear()

    def _prepare(
        self, release: Release, made_from: Sources, servers: dict[str, str], *, own_docker: bool
    ) -> KindRecord:
        created = hostchanges.missing_folders(CREATED_FOLDERS) if own_docker else []
        prepared = KindRecord(
            clone=str(CLONE),
            own_docker=own_docker,
            kubernetes=release.version,
            image=made_from.image,
            programs=[str(folder) for folder in made_from.programs],
            servers=servers,
            sysctls=hostchanges.original_sysctls(record.SYSCTLS, self._record_file.other_sysctls()),
            folders=[str(folder) for folder in created],
        )
        if not own_docker and self.docker(prepared).nodes():
            raise ClusterError(
                f"kind has a cluster {settings.CLUSTER} already; remove it with"
                f" `kind delete cluster --name {settings.CLUSTER}`"
            )
        self._record_file.write(prepared)
        return prepared

    def _create(
        self, new: KindRecord, release: Release, archive: Path | None, servers: dict[str, str]
    ) -> None:
        if new.own_docker:
            with self._progress.stage("Start the Docker daemon"):
                self._daemon(new).start()
        docker = self.docker(new)
        if archive is not None:
            with self._progress.stage("Load the node image into Docker"):
                docker.run("load", "--quiet", "--input", archive)
        with self._progress.stage("Create the nodes of kind"):
            creation.create(new, release, servers, docker, self._paths)
        with self._progress.stage("Wait for the nodes"):
            creation.wait_until_ready(docker, [settings.CONTROL_PLANE, *servers])
        self._complete.touch()

    def _start_stopped_nodes(self, running: KindRecord) -> None:
        docker = self.docker(running)
        stopped = [name for name, runs in docker.nodes().items() if not runs]
        if stopped:
            with self._progress.stage(f"Start {', '.join(stopped)}"):
                docker.run("start", *stopped)
                creation.wait_until_ready(docker, list(docker.nodes()))

    def _load_missing(self, running: KindRecord, built: Sequence[Image]) -> None:
        docker = self.docker(running)
        ctr = ("ctr", "--namespace=k8s.io", "images")

        def list_images(name: str) -> list[str]:
            return docker.run("exec", name, *ctr, "ls", "--quiet").split()

        def load(name: str, image: Image) -> None:
            archive = image.archive(self._paths)
            docker.run("exec", "--interactive", name, *ctr, "import", "-", input_file=archive)

        runs = docker.nodes()
        workers = [name for name in nodes.by_container(running.servers) if runs.get(name)]
        nodeimages.load_missing(built, workers, list_images, load, self._progress)
