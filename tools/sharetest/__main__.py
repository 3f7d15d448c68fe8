"""Run random pods that share GPUs beside pods with whole GPUs, under kills; judge every pod."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.settings import current_paths
from sharetest import judge
from sharetest.judge import PodVerdict
from sharetest.run import Settings, Trial
from showcase import install
from soaktest.client import Client
from soaktest.trial import trial

VALUES = Path(__file__).with_name("values.yaml")


def main(arguments: Sequence[str]) -> int:
    """Run the trial; return 1 if something occurred that must not."""
    options = _parser().parse_args(arguments)
    settings = Settings(
        options.pods, options.at_once, options.sharing, options.kill_seconds, options.seed
    )
    with trial():
        if not options.installed:
            install.on_local_cluster(lambda text: print(f"==> {text}", file=sys.stderr), VALUES)
        installed = install.on_running_cluster()
        with Client(current_paths().kubeconfig) as client:
            found = Trial(client, installed.nodes, installed.trainer_image, settings)
            done = found.run()
    print("\n".join(judge.table(done, found.findings, found.kills, found.seconds)))
    bad = [each for each in done if each.verdict is not PodVerdict.RAN]
    for each in bad:
        print(f"{each.pod}: {each.verdict}: {each.detail}")
    print(*found.findings.bad, sep="\n")
    wrong = {PodVerdict.OTHER_DEVICE, PodVerdict.LATE}
    return 1 if found.findings.bad or any(each.verdict in wrong for each in bad) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/sharing", description=__doc__)
    parser.add_argument("--pods", type=int, default=200, help="number of pods (200)")
    parser.add_argument("--at-once", type=int, default=40, help="most pods at one time (40)")
    parser.add_argument("--sharing", type=float, default=0.75, help="part with a share (0.75)")
    parser.add_argument(
        "--kill-seconds", type=float, default=10.0, help="between two kills; 0 for none (10)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--installed", action="store_true", help="install nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
