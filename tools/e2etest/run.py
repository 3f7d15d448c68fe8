"""Start a cluster of one Kubernetes version, run the end-to-end tests on it, and remove it."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from e2etest.results import Outcomes, VersionResult, parse_junit, table
from localcluster import binaries, state
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import CLONE, Paths
from showcase import install

SUITE = CLONE / "tests" / "e2e"
_TESTS_RAN = {0, 1}
"""Exit statuses of pytest after which every selected test has a result."""


def require_no_cluster(paths: Paths) -> None:
    """Raise a ClusterError if a cluster is up: its version and its objects are unknown."""
    if state.read(paths) is not None:
        raise ClusterError(
            "a cluster is up on this machine; `tools/cluster down` removes it. To run tests on it,"
            " use .venv/bin/pytest tests/e2e"
        )


def run_version(
    release: Release, options: Sequence[str], paths: Paths, suite: Path = SUITE
) -> VersionResult:
    """Run the tests on a new cluster.

    Args:
        release: version of Kubernetes.
        options: further options of pytest.
        paths: folders of the cluster.
        suite: folder of the tests.
    """
    print(f"\n==> Kubernetes {release.version}", file=sys.stderr, flush=True)
    try:
        binaries.ensure(release, paths, Progress())
        began = time.monotonic()
        install.start_cluster(release.version)
        started = time.monotonic()
        tests, error = _run_tests(options, suite)
        ended = time.monotonic()
    except (ClusterError, subprocess.CalledProcessError) as failure:
        return VersionResult(release.version, Outcomes(), 0.0, 0.0, f"no cluster: {failure}")
    finally:
        install.remove_local_cluster()
    result = VersionResult(release.version, tests, started - began, ended - started, error)
    # All versions take hours; the result of each is visible at once.
    print("\n".join(table([result])), file=sys.stderr, flush=True)
    return result


def _run_tests(options: Sequence[str], suite: Path) -> tuple[Outcomes, str]:
    with tempfile.TemporaryDirectory(prefix="gputopo-e2e-") as folder:
        report = Path(folder) / "junit.xml"
        words = [sys.executable, "-m", "pytest", "-v", "--tb=short", f"--junitxml={report}"]
        words += ["-o", "junit_family=xunit1"]  # the tests record figures as properties
        # Standard output is for the results.
        done = subprocess.run(
            [*words, *options, str(suite)], cwd=CLONE, stdout=sys.stderr, check=False
        )
        try:
            tests = parse_junit(report.read_text())
        except (OSError, ValueError) as error:
            return Outcomes(), f"pytest ended with status {done.returncode}: {error}"
    complete = done.returncode in _TESTS_RAN
    return tests, "" if complete else f"pytest ended with status {done.returncode}"
