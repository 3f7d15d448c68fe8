"""Print a random sample of the project's docstrings, messages and paragraphs."""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from readability.blind import control_passages, write_blind_test
from readability.passages import KINDS, Passage, extract_passages
from readability.sources import read_sources
from readability.text import format_passage

_ROOT: Final = Path(__file__).parents[2]


def main(arguments: Sequence[str]) -> int:
    """Print the sample; return 2 if Git does not know the revision."""
    options = _parser().parse_args(arguments)
    try:
        sources = list(read_sources(_ROOT, options.ref))
    except subprocess.CalledProcessError as error:
        print(f"tools/passages: git failed: {error.stderr.strip()}", file=sys.stderr)
        return 2
    drawn = _draw(sources, options)
    if options.blind is not None:
        controls = draw(control_passages(), options.seed, options.count)
        before = _draw(read_sources(_ROOT, options.before), options)
        groups = {"now": drawn, "before": before, "controls": controls}
        write_blind_test(options.blind, groups, random.Random(options.seed))  # noqa: S311
    elif options.output == "json":
        print(json.dumps([asdict(passage) for passage in drawn], indent=2))
    else:
        print("\n".join(format_passages(drawn)))
    return 0


def _draw(sources: Iterable[tuple[str, str]], options: argparse.Namespace) -> list[Passage]:
    passages = [each for path, text in sources for each in extract_passages(path, text)]
    return draw(passages, options.seed, options.count)


def draw(passages: Iterable[Passage], seed: int, count: int) -> list[Passage]:
    """Return ``count`` passages of each kind; the same seed and text give the same sample."""
    by_kind: dict[str, list[Passage]] = {kind: [] for kind in KINDS}
    for passage in sorted(passages):
        by_kind[passage.kind].append(passage)
    drawn: list[Passage] = []
    for kind, found in by_kind.items():
        rng = random.Random(f"{seed} {kind}")  # noqa: S311 - repeatable on purpose
        drawn += rng.sample(found, min(count, len(found)))
    return drawn


def format_passages(passages: Sequence[Passage]) -> Iterator[str]:
    """Yield the lines of a numbered list with file and line of each passage."""
    for number, passage in enumerate(passages, 1):
        yield f"{number}. {passage.kind}, {passage.path}:{passage.line}"
        yield from format_passage(passage)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/passages", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="same seed, same sample (default: 1)")
    parser.add_argument("--ref", help="Git revision to draw from (default: the working tree)")
    parser.add_argument("--count", type=int, default=10, help="passages of each kind (default: 10)")
    parser.add_argument(
        "--blind",
        type=Path,
        metavar="FOLDER",
        help="write a blind test: the sample mixed with passages of --before and other projects",
    )
    parser.add_argument("--before", default="HEAD", help="Git revision for --blind")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
