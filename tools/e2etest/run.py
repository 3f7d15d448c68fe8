"""Start a cluster of one Kubernetes version, run the end-to-end tests on it, and remove it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from e2etest.results import Outcomes, VersionResult, parse_junit, table
from kindcluster import record as kind_record
from kindcluster import settings as kind_settings
from localcluster import binaries, state
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import CLONE, Paths
from showcase import install
from showcase.install import PLATFORMS

SUITE = CLONE / "tests" / "e2e"
_TESTS_RAN = {0, 1}
"""Exit statuses of pytest after which every selected test has a result."""
_CLUSTER = "GPUTOPO_E2E_CLUSTER"


def require_no_cluster(paths: Paths, platform: str = "local") -> None:
    """Raise a ClusterError if a cluster is up: its version and its objects are unknown."""
    if platform == "local":
        found, command, variable = state.read(paths) is not None, "tools/cluster", ""
    else:
        own = kind_record.record_file(kind_settings.current_paths())
        found, command, variable = own.read() is not None, "tools/kind", f"{_CLUSTER}=kind "
    if found:
        raise ClusterError(
            f"a cluster is up on this machine; `{command} down` removes it. To run tests on it,"
            f" use {variable}.venv/bin/pytest tests/e2e"
        )


def run_version(
    release: Release,
    options: Sequence[str],
    paths: Paths,
    suite: Path = SUITE,
    platform: str = "local",
) -> VersionResult:
    """Run the tests on a new cluster.

    Args:
        release: version of Kubernetes.
        options: further options of pytest.
        paths: folders of the local cluster.
        suite: folder of the tests.
        platform: what the nodes are; see PLATFORMS of showcase.
    """
    place = PLATFORMS[platform]()
    print(f"\n==> Kubernetes {release.version}", file=sys.stderr, flush=True)
    try:
        if place.is_local:
            binaries.ensure(release, paths, Progress())
        began = time.monotonic()
        install.start_cluster(release.version, place)
        started = time.monotonic()
        tests, error = _run_tests(options, suite, platform)
        ended = time.monotonic()
    except (ClusterError, subprocess.CalledProcessError) as failure:
        return VersionResult(release.version, Outcomes(), 0.0, 0.0, f"no cluster: {failure}")
    finally:
        install.remove_cluster(place)
    result = VersionResult(release.version, tests, started - began, ended - started, error)
    # All versions take hours; the result of each is visible at once.
    print("\n".join(table([result])), file=sys.stderr, flush=True)
    return result


def _run_tests(options: Sequence[str], suite: Path, platform: str) -> tuple[Outcomes, str]:
    with tempfile.TemporaryDirectory(prefix="gputopo-e2e-") as folder:
        report = Path(folder) / "junit.xml"
        words = [sys.executable, "-m", "pytest", "-v", "--tb=short", f"--junitxml={report}"]
        words += ["-o", "junit_family=xunit1"]  # the tests record figures as properties
        # Standard output is for the results.
        words += [*options, str(suite)]
        environment = {**os.environ, _CLUSTER: platform}
        done = subprocess.run(words, cwd=CLONE, stdout=sys.stderr, env=environment, check=False)
        try:
            tests = parse_junit(report.read_text())
        except (OSError, ValueError) as error:
            return Outcomes(), f"pytest ended with status {done.returncode}: {error}"
    complete = done.returncode in _TESTS_RAN
    return tests, "" if complete else f"pytest ended with status {done.returncode}"
