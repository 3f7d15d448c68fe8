"""Find words that the list of terms excludes, in names and in text."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

from readability.passages import extract_passages

_NOT_TEXT: Final = re.compile(r"`[^`]*`|\]\([^)]*\)")  # code and the targets of links
_CONTEXT: Final = 40  # characters shown on both sides of a word


class Excluded(NamedTuple):
    """The words that names, and the words that text, must not use."""

    in_names: re.Pattern[str]
    in_text: re.Pattern[str]


class Use(NamedTuple):
    """One use of an excluded word."""

    path: str
    line: int
    word: str
    context: str  # the name, or the text around the word


def parse_glossary(text: str) -> Excluded:
    """Parse the last column of all tables of ``docs/develop/terms.md``."""
    names, words = set(), set()
    for row in re.findall(r"^\|.*\| *([^|]*) *\|$", text, re.MULTILINE):
        for entry in re.split(r", (?![^(]*\))", row.strip()):
            if entry in {"", "not", "---"} or "(" in entry:
                continue
            if entry.startswith("`"):
                names.add(entry.strip("`"))
            else:
                words.add(entry)
    return Excluded(_any_of(names | words), _any_of(words))


def _any_of(words: set[str]) -> re.Pattern[str]:
    if not words:
        return re.compile(r"(?!)")  # matches nothing
    return re.compile(rf"\b(?:{'|'.join(sorted(map(_inflected, words)))})\b", re.IGNORECASE)


def _inflected(words: str) -> str:
    """Match the forms of a verb or noun; in a phrase, those of its first word."""
    first, *rest = words.split()
    stem = first.removesuffix("e")
    forms = [first, f"{first}s", f"{first}es", f"{stem}ed", f"{stem}ing"]
    return " ".join([f"(?:{'|'.join(forms)})", *rest])


def split_name(name: str) -> str:
    """Return the words of an identifier, in snake case or camel case, separated by spaces.

    >>> split_name("_HTTPServer_podOf")
    'HTTP Server pod Of'
    """
    return " ".join(re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name))


def _defined_names(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of all modules, classes, functions, arguments and variables."""
    yield from ((1, part) for part in path.removesuffix(".py").split("/"))
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def find_uses(path: str, text: str, excluded: Excluded) -> Iterator[Use]:
    """Yield the uses of excluded words in one file."""
    if path.endswith(".py"):
        for line, name in _defined_names(path, ast.parse(text)):
            for found in excluded.in_names.findall(split_name(name)):
                yield Use(path, line, found.lower(), name)
    for line, passage in _texts(path, text):
        prose = " ".join(_NOT_TEXT.sub("", passage).split())
        for match in excluded.in_text.finditer(prose):
            near = prose[max(0, match.start() - _CONTEXT) : match.end() + _CONTEXT]
            yield Use(path, line, match[0].lower(), near)


def _texts(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of what people read in a file."""
    if path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from (
            (each.start[0], each.string) for each in tokens if each.type == tokenize.COMMENT
        )
        yield from ((each.line, each.text) for each in extract_passages(path, text))
    elif path.endswith(".md"):
        yield from ((each.line, each.text) for each in extract_passages(path, text))
        rows = enumerate(text.splitlines(), 1)
        yield from ((number, line) for number, line in rows if line.startswith(("|", "#")))
    else:
        yield from enumerate(text.splitlines(), 1)
