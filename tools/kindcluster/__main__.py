"""Command line: `tools/kind COMMAND`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from kindcluster import nodes, settings, status
from kindcluster.cluster import KindCluster
from localcluster import cli, fakegpus, releases
from localcluster.progress import Progress

_DESCRIPTION = "A Kubernetes cluster of kind with simulated GPUs on this machine; needs root."


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit status."""
    return cli.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/kind", description=_DESCRIPTION)
    add = cli.adding_to(parser)
    _add_options_of_up(add("up", _up, "start the cluster, or find it running"))
    add("down", _down, "remove the cluster, and what it has changed on this machine")
    add("status", _status, "show what runs").add_argument("-o", choices=["text", "json"])
    add("env", _env, 'print settings for a shell: eval "$(tools/kind env)"')
    add(
        "images", _images, "build the images, bring them to the workers, print their names"
    ).add_argument("-o", choices=["text", "json"])
    inside = add("in", _in, "run a command inside a node")
    inside.add_argument("node", help="n1, n2, ..., or the name of its container")
    inside.add_argument("words", nargs=argparse.REMAINDER, help="command; without it, bash")
    return parser


def _add_options_of_up(up: argparse.ArgumentParser) -> None:
    defaults = ", ".join(f"{node}={server}" for node, server in fakegpus.DEFAULT_SERVERS.items())
    cli.add_gpus(
        up,
        "which server of the catalogue a worker simulates, or `none`; n1 is gputopo-worker, n2"
        f" gputopo-worker2, and so on; by default {defaults}",
    )
    cli.add_kubernetes(up, f"without it that of the running cluster, else {releases.DEFAULT_MINOR}")
    up.add_argument(
        "--build",
        action="store_true",
        help="build Docker and the node image, even if this machine has Docker",
    )
    up.add_argument(
        "--image",
        metavar="IMAGE",
        help="node image for the Docker of this machine, in place of the published one",
    )


def _cluster() -> KindCluster:
    return KindCluster(settings.current_paths(), Progress())


def _up(options: argparse.Namespace) -> None:
    servers = fakegpus.parse_servers(options.gpus)
    _cluster().up(servers, options.kubernetes, options.image, build=options.build)


def _down(_: argparse.Namespace) -> None:
    _cluster().down()


def _status(options: argparse.Namespace) -> None:
    current = _cluster().status()
    print(status.as_json(current) if options.o == "json" else status.as_text(current))


def _env(_: argparse.Namespace) -> None:
    cluster = _cluster()
    running = cluster.record()
    print(f'export KUBECONFIG="{cluster.kubeconfig}"')
    print(f'export KUBECACHEDIR="{settings.current_paths().kubectl_cache}"')
    if running.own_docker:
        print(f'export DOCKER_HOST="{cluster.docker(running).environment["DOCKER_HOST"]}"')
    print(f'export PATH="{":".join([*running.programs, "$PATH"])}"')


def _images(options: argparse.Namespace) -> None:
    cli.print_images(_cluster().images(), options.o)


def _in(options: argparse.Namespace) -> None:
    cluster = _cluster()
    docker = cluster.docker(cluster.record())
    container = nodes.container_of_name(options.node)
    words = options.words or ["bash"]
    command = docker.inside(container, words, terminal=sys.stdin.isatty())
    os.execvpe(command[0], command, docker.environment)  # noqa: S606 - takes this process's place


if __name__ == "__main__":
    # A reader such as `head` may leave early; end quietly then, as other programs do.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
