"""Upgrade from an earlier revision, roll back, mix versions, remove and install again.

Eight pods use GPUs from the first version until the removal. In each state the tool checks that
none of them was restarted or changed, that annotation, environment, device nodes and kubelet's
records of each pod agree, that new pods get GPUs, and that the CRDs are those of the chart.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.settings import CLONE, current_paths
from showcase import install
from showcase.kubectl import Kubectl
from soaktest.trial import trial, write
from upgradetest import cleanup, previous, report
from upgradetest.helm import RELEASE, Helm, HelmFailedError
from upgradetest.pods import TrialPods
from upgradetest.run import Trial


def main(arguments: Sequence[str]) -> int:
    """Run all states; return 1 if a problem was found."""
    options = _parser().parse_args(arguments)
    with trial():
        states = _carry_out(options)
    write(
        options.output,
        report.document(options.revision, states),
        report.table(options.revision, states),
    )
    return int(any(state.problems for state in states))


def _carry_out(options: argparse.Namespace) -> list[report.State]:
    install.start_cluster()
    local, cluster = install.on_running_cluster(), Cluster(current_paths(), Progress())
    _remove_existing(local.kubectl, replace=options.replace)
    with tempfile.TemporaryDirectory(prefix="gputopo-upgrade-") as name:
        folder = Path(name)
        _say("building the images of both versions")
        old = previous.build(cluster, previous.extract(options.revision, folder / "previous"))
        new = previous.build(cluster, CLONE)
        pods = TrialPods(local.kubectl, local.workload_image)
        run = Trial(local.kubectl, old, new, pods, folder, _say)
        try:
            run.carry_out()
        except (HelmFailedError, TimeoutError) as error:
            run.states[-1].problems.append(f"the run ends here: {error}")
        return run.states


def _remove_existing(kubectl: Kubectl, *, replace: bool) -> None:
    helm = Helm(kubectl)
    if not helm.exists():
        return
    if not replace:
        raise ClusterError(
            f"release {RELEASE} is installed on the cluster, and this tool removes it;"
            " permit that with --replace"
        )
    cleanup.remove(kubectl, helm)


def _say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/upgrade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("--from", "-f"),
        dest="revision",
        required=True,
        metavar="REVISION",
        help="revision of this clone to upgrade from, for example a tag",
    )
    parser.add_argument(
        "--replace", action="store_true", help="remove an installation that is already there"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
