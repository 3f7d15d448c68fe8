"""Run random pods under each policy of kubelet's topology manager, and judge every pod."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster.settings import current_paths
from numatest import judge
from numatest.pods import POLICIES
from numatest.run import Settings, Trials
from showcase import install
from soaktest.client import Client
from soaktest.trial import trial

VALUES = Path(__file__).with_name("values.yaml")


def main(arguments: Sequence[str]) -> int:
    """Run the trials; return 1 if a pod ended as it must not."""
    options = _parser().parse_args(arguments)
    settings = Settings(
        options.nodes, options.pods, options.at_once, options.with_cpus, options.scope, options.seed
    )
    with trial():
        if not options.installed:
            install.on_local_cluster(lambda text: print(f"==> {text}", file=sys.stderr), VALUES)
        installed = install.on_running_cluster()
        nodes, image = installed.nodes, installed.workload_image
        with Client(current_paths().kubeconfig) as client:
            done = Trials(client, nodes, image, settings).run(options.policies)
    if options.output == "json":
        print(json.dumps(judge.document(done), indent=1))
    else:
        print("\n".join(judge.table(done)))
        print(
            *[f"{each.pod}: {each.verdict}: {each.detail}" for one in done for each in one.findings]
        )
    return 1 if any(one.findings for one in done) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/numa", description=__doc__)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument("--nodes", nargs="+", default=["n1", "n2", "n3"], help="(n1 n2 n3)")
    parser.add_argument("--pods", type=int, default=200, help="of each policy (200)")
    parser.add_argument("--at-once", type=int, default=6, help="most pods at one time (6)")
    parser.add_argument("--with-cpus", type=float, default=0.4, help="part with a CPU (0.4)")
    parser.add_argument("--scope", choices=("container", "pod"), default="container")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--installed", action="store_true", help="install nothing")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
