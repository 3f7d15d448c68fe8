"""What the command lines of `tools/cluster` and `tools/kind` have in common."""

import argparse
import errno
import json
import sys
from collections.abc import Callable, Sequence

from localcluster import releases
from localcluster.errors import ClusterError
from localcluster.images import Image

Command = Callable[[argparse.Namespace], None]


def run(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Run one command of a parser; return the exit status."""
    options = parser.parse_args(arguments)
    command: Command = options.command
    try:
        command(options)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"{error.filename}: no space left on the disk; free some, then try again"
        print(f"error: {message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ninterrupted; `{parser.prog} down` removes what was made", file=sys.stderr)
        return 130
    return 0


def adding_to(
    parser: argparse.ArgumentParser,
) -> Callable[[str, Command, str], argparse.ArgumentParser]:
    """Return a function that adds a command by its name, what runs it, and its text."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=command)
        return added

    return add


def add_gpus(up: argparse.ArgumentParser, text: str) -> None:
    """Add the option that chooses the nodes' servers."""
    up.add_argument("--gpus", "-g", action="append", default=[], metavar="NODE=SERVER", help=text)


def add_kubernetes(command: argparse.ArgumentParser, default: str) -> None:
    """Add the option that chooses the version of Kubernetes; the text names its default."""
    versions = ", ".join(release.minor for release in releases.supported())
    text = f"version of Kubernetes: one of {versions}; {default}"
    command.add_argument("--kubernetes", metavar="VERSION", help=text)


def print_images(images: Sequence[Image], form: str | None) -> None:
    """Print the names of images, as JSON by component or one on each line."""
    references = {image.name: image.reference for image in images}
    print(json.dumps(references, indent=1) if form == "json" else "\n".join(references.values()))
