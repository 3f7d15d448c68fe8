"""Mix passages of this project, of an earlier revision and of other projects for a blind test.

A reader who knows that all passages are of one project finds some unclear ones in every sample. So
the passages come in random order and without their places, together with those of well-known
packages as controls.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from readability.passages import KINDS, PARAGRAPH, Passage, extract_passages
from readability.text import format_passage

CODE_OF: Final = ("aiohttp", "anyio", "attrs", "kopf", "networkx")
"""Installed packages whose docstrings and messages are controls."""

PAGES_OF: Final = ("anyio", "attrs", "cachetools", "kopf", "pydantic", "rich", "typer")
"""Installed packages whose READMEs are controls."""

_MAX_TEXT: Final = 900  # characters; some packages have docstrings of several pages
_NOT_PROSE: Final = ("..", "http", "[!")


def control_passages() -> Iterator[Passage]:
    """Yield passages of the installed packages ``CODE_OF`` and ``PAGES_OF``."""
    for name in CODE_OF:
        yield from _code_passages(distribution(name))
    for name in PAGES_OF:
        text = distribution(name).read_text("METADATA") or ""
        page = text.partition("\n\n")[2]  # after the header
        for each in extract_passages(f"{name}/README.md", page):
            if not any(mark in each.text for mark in _NOT_PROSE):
                yield each


def _code_passages(package: Distribution) -> Iterator[Passage]:
    for file in package.files or ():
        if file.suffix == ".py" and "test" not in str(file):
            for each in extract_passages(f"{package.name}/{file}", file.read_text()):
                if each.kind != PARAGRAPH and len(each.text) <= _MAX_TEXT:
                    yield each


def write_blind_test(
    folder: Path, groups: Mapping[str, Sequence[Passage]], rng: random.Random
) -> None:
    """Write a file for each kind of passage, and ``key.json`` with group and place of each one.

    Args:
        folder: is created.
        groups: passages by the name of their group, for instance ``now``, ``before``, ``controls``.
        rng: decides the order of the passages in each file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = {}
    for kind in KINDS:
        mixed = [(name, each) for name, drawn in groups.items() for each in drawn]
        mixed = [(name, each) for name, each in mixed if each.kind == kind]
        rng.shuffle(mixed)
        lines = [
            line
            for number, (_, each) in enumerate(mixed, 1)
            for line in (f"{number}.", *format_passage(each))
        ]
        (folder / f"{kind}.txt").write_text("\n".join(lines) + "\n")
        key[kind] = [f"{name} {each.path}:{each.line}" for name, each in mixed]
    (folder / "key.json").write_text(json.dumps(key, indent=2) + "\n")
