"""Command line: `tools/cluster COMMAND`."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence

from localcluster import binaries, cli, controlplane, fakegpus, releases, status
from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.settings import current_paths


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit status."""
    return cli.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/cluster", description=_DESCRIPTION)
    add = cli.adding_to(parser)
    _add_options_of_up(add("up", _up, "start the cluster, or complete it, or find it running"))
    build = add("build", _build, "build the programs of a cluster, print their folder")
    cli.add_kubernetes(build, f"without it {releases.DEFAULT_MINOR}")
    add("down", _down, "remove the cluster and all its traces on this machine")
    add("status", _status, "show what runs").add_argument("-o", choices=["text", "json"])
    add("env", _env, 'print settings for a shell: eval "$(tools/cluster env)"')
    add(
        "images", _images, "build the images, bring them to the nodes, print their names"
    ).add_argument("-o", choices=["text", "json"])
    for name, run, text in (
        ("node-off", _node_off, "pull a node's plug"),
        ("node-on", _node_on, "switch a node on again"),
        ("kubelet-stop", _kubelet_stop, "stop a node's kubelet; its containers go on"),
        ("kubelet-start", _kubelet_start, "start a node's kubelet again"),
    ):
        add(name, run, text).add_argument("node", help="n1, n2, ...")
    config = add(
        "kubelet-config",
        _kubelet_config,
        "restart a node's kubelet with other values of fields of its KubeletConfiguration",
    )
    config.add_argument("node", help="n1, n2, ...")
    config.add_argument("changes", help="JSON object; {} restores the node's own values")
    for name, run, text in (
        ("part-stop", _part_stop, "kill one process of the control plane"),
        ("part-start", _part_start, "start what was killed of the control plane"),
    ):
        add(name, run, text).add_argument("part", help=", ".join(controlplane.PARTS))
    inside = add("in", _in, "run a command inside a node")
    inside.add_argument("node", help="n1, n2, ...")
    inside.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD...")
    return parser


def _add_options_of_up(up: argparse.ArgumentParser) -> None:
    defaults = ", ".join(f"{node}={server}" for node, server in fakegpus.DEFAULT_SERVERS.items())
    cli.add_gpus(
        up, f"which server of the catalogue a node plays, or `none`; by default {defaults}"
    )
    cli.add_kubernetes(up, f"without it that of the running cluster, else {releases.DEFAULT_MINOR}")


_DESCRIPTION = "A Kubernetes cluster with simulated GPUs on this machine; needs root."


def _cluster() -> Cluster:
    return Cluster(current_paths(), Progress())


def _up(options: argparse.Namespace) -> None:
    _cluster().up(fakegpus.parse_servers(options.gpus), options.kubernetes)


def _build(options: argparse.Namespace) -> None:
    release = releases.choose(options.kubernetes, None, releases.supported())
    print(binaries.ensure(release, current_paths(), Progress()))


def _down(_: argparse.Namespace) -> None:
    _cluster().down()


def _status(options: argparse.Namespace) -> None:
    current = _cluster().status()
    print(status.as_json(current) if options.o == "json" else status.as_text(current))


def _env(_: argparse.Namespace) -> None:
    _cluster().record()
    paths = current_paths()
    print(f'export KUBECONFIG="{paths.kubeconfig}"')
    print(f'export KUBECACHEDIR="{paths.kubectl_cache}"')
    print(f'export PATH="{paths.binaries}:$PATH"')


def _images(options: argparse.Namespace) -> None:
    cli.print_images(_cluster().images(), options.o)


def _node_off(options: argparse.Namespace) -> None:
    _cluster().nodes.set_power(options.node, on=False)


def _node_on(options: argparse.Namespace) -> None:
    _cluster().nodes.set_power(options.node, on=True)


def _kubelet_stop(options: argparse.Namespace) -> None:
    _cluster().nodes.set_kubelet(options.node, on=False)


def _kubelet_start(options: argparse.Namespace) -> None:
    _cluster().nodes.set_kubelet(options.node, on=True)


def _kubelet_config(options: argparse.Namespace) -> None:
    try:
        changes = json.loads(options.changes)
    except json.JSONDecodeError as error:
        raise ClusterError(f"changes: {options.changes!r}: not JSON: {error}") from None
    if not isinstance(changes, dict):
        raise ClusterError(f"changes: {options.changes!r}: must be a JSON object")
    _cluster().nodes.configure_kubelet(options.node, changes)


def _part_stop(options: argparse.Namespace) -> None:
    _cluster().set_part(options.part, on=False)


def _part_start(options: argparse.Namespace) -> None:
    _cluster().set_part(options.part, on=True)


def _in(options: argparse.Namespace) -> None:
    command = _cluster().nodes.inside(options.node, options.words or ["bash"])
    os.execvp(command[0], command)  # noqa: S606 - the command takes this process's place


if __name__ == "__main__":
    # A reader such as `head` may leave early; end quietly then, as other programs do.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
