"""Command line: `tools/cluster COMMAND`."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence

from localcluster import binaries, controlplane, fakegpus, releases, status
from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.settings import current_paths


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit status."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `tools/cluster down` removes what was made", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/cluster", description=_DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=run)
        return command

    _add_options_of_up(add("up", _up, "start the cluster, or complete it, or find it running"))
    build = add("build", _build, "build the programs of a cluster, print their folder")
    _add_kubernetes(build, f"without it {releases.DEFAULT_MINOR}")
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
    up.add_argument(
        *("--gpus", "-g"),
        action="append",
        default=[],
        metavar="NODE=SERVER",
        help="which server of the catalogue a node plays, or `none`; by default "
        + ", ".join(f"{node}={server}" for node, server in fakegpus.DEFAULT_SERVERS.items()),
    )
    _add_kubernetes(up, f"without it that of the running cluster, else {releases.DEFAULT_MINOR}")


def _add_kubernetes(command: argparse.ArgumentParser, default: str) -> None:
    versions = ", ".join(release.minor for release in releases.supported())
    text = f"version of Kubernetes: one of {versions}; {default}"
    command.add_argument("--kubernetes", metavar="VERSION", help=text)


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
    references = {image.name: image.reference for image in _cluster().images()}
    if options.o == "json":
        print(json.dumps(references, indent=1))
    else:
        print("\n".join(references.values()))


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
