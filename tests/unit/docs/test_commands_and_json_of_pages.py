"""The commands and JSON in the code blocks of the pages are complete and not joined into one."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from gputopo_cli.app import app

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if path.name != "commands.md"
)
FENCED = re.compile(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$")
INDENTED = re.compile(r"(?m)(?:^|\n\n)((?:    (?! |[-*] |\d+\. ).*\n)+)")
COMMAND = re.compile(r"(?m)^ *(?:\$ )?(?:kubectl )?gputopo (?![a-z-]+/)([a-z].*)$")
OTHER_SHELL = {"|", ">", ">>", ";", "&&", "&", "<"}


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield language and content of each code block of a page."""
    for _, language, content in FENCED.findall(text):
        yield language, content
    for content in INDENTED.findall(FENCED.sub("", text)):
        yield "", content


def commands(content: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of ``gputopo`` in a code block."""
    for line in COMMAND.findall(content.replace("\\\n", " ")):
        words = shlex.split(line, comments=True)
        end = next((at for at, word in enumerate(words) if word in OTHER_SHELL), len(words))
        yield [word for word in words[:end] if not word.startswith("$")]  # of the shell


def error_of(words: list[str]) -> str | None:
    """Return why ``gputopo`` does not accept these arguments; None if it does."""
    command: Any = get_command(app)
    context = typer.Context(command, info_name="gputopo")
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}"
        context = typer.Context(found, info_name=words[0], parent=context)
        command, words = found, words[1:]
    if isinstance(command, TyperGroup):
        return None
    try:
        _, left, _ = command.make_parser(context).parse_args(list(words))
    except TyperException as error:
        return f"{error}"
    return f"more arguments: {' '.join(left)}" if left else None


@pytest.mark.parametrize("path", PAGES)
def test_commands_of_pages_have_known_options_and_arguments(path: str) -> None:
    found = [
        f"gputopo {' '.join(words)}: {error}"
        for _, content in blocks((ROOT / path).read_text())
        for words in commands(content)
        if (error := error_of(words))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", PAGES)
def test_json_of_pages_is_valid_or_is_valid_in_each_line(path: str) -> None:
    for language, content in blocks((ROOT / path).read_text()):
        if language == "json":
            json.loads(content)
        elif language == "" and re.match(r'\s*\{"', content):
            for line in content.splitlines():
                json.loads(line)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```\ngputopo place --gpus 2 \\\n  --topology dgx-2\n```\n", None),
        ("    gputopo place --gpus 2 gputopo topology list\n", "more arguments: gputopo top"),
        ("    gputopo place --gpus 2 \\ --policy greedy\n", "more arguments:  --policy"),
        ("```\ngputopo topology export n1 -o json\n```\n", "No such option"),
        ("```console\n$ gputopo placed --gpus 2\n```\n", "no command placed"),
        ("```\ngputopo ensemble\n```\n", None),
    ],
)
def test_joined_commands_and_unknown_options_are_found(text: str, error: str | None) -> None:
    [words] = [words for _, content in blocks(text) for words in commands(content)]
    assert (error_of(words) or "").startswith(error or "")
    assert (error_of(words) is None) == (error is None)
