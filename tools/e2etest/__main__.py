"""Run all end-to-end tests on new clusters of one or more Kubernetes versions, one after another.

Options after `--` are those of pytest, for example: tools/e2e --kubernetes 1.34 -- -k preemption
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from e2etest import results
from e2etest.run import require_no_cluster, run_version
from localcluster import preflight, releases
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import current_paths
from soaktest.trial import write

ALL = "all"


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return 1 if a version has problems, 2 if nothing could be run."""
    own, for_pytest = _split(arguments)
    options = _parser().parse_args(own)
    platform = "kind" if options.kind else "local"
    try:
        preflight.require_root()
        chosen = choose(options.kubernetes, releases.supported())
        paths = current_paths()
        require_no_cluster(paths, platform)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        found = [run_version(release, for_pytest, paths, platform=platform) for release in chosen]
    except subprocess.CalledProcessError as error:
        print(f"error: the cluster was not removed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    write(options.output, results.document(found), results.table(found))
    return 1 if any(each.problems for each in found) else 0


def choose(requested: Sequence[str], supported: Sequence[Release]) -> list[Release]:
    """The releases to test; `all` stands for every supported one.

    Raises:
        ClusterError: one is not supported.
    """
    if ALL in requested:
        return list(supported)
    chosen = [releases.find(text, supported) for text in requested or [releases.DEFAULT_MINOR]]
    return list(dict.fromkeys(chosen))


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Own arguments, and those of pytest, which follow `--`."""
    words = list(arguments)
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/e2e",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    versions = ", ".join(release.minor for release in releases.supported())
    parser.add_argument(
        "--kubernetes",
        nargs="+",
        default=[],
        metavar="VERSION",
        help=f"one or more of {versions}, or {ALL} ({releases.DEFAULT_MINOR})",
    )
    parser.add_argument(
        "--kind", action="store_true", help="on nodes of kind, in place of the local cluster's"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
