"""Collects the texts that users see from the source code: reasons, events and rejections.

A sink is a place where the code passes such a text: an argument of a call, or the result of a
function. A text is the value of a string, an f-string with `…` for each inserted value, or each of
the values of a condition, variable or constant.
"""

import ast
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[3]
INSERTED: Final = "…"
_SHORTENED: Final = {"shortened", "truncated"}
"""Functions that return their argument with a limited length."""
_FOLDERS: Final = ("src", "operator", "extender", "deviceplugin")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Sink:
    """Where the code passes a text.

    Attributes:
        package: package or module in which to look.
        name: called name; a function whose results are the texts if ``argument`` is None.
        argument: position or keyword of the text.
        without: package of ``package`` in which not to look.
    """

    package: str
    name: str
    argument: int | str | None = None
    without: str = ""


@dataclass
class Found:
    """Texts of some sinks; ``passed`` has the functions that pass on a text made elsewhere."""

    texts: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)


def collect(sinks: Iterable[Sink]) -> Found:
    """Return the texts of all sinks.

    Raises:
        AssertionError: a sink does not occur in the code, for instance because it was renamed.
    """
    found = Found()
    for sink in sinks:
        expressions = list(_expressions(sink))
        assert expressions, f"{sink} does not occur"
        for scope, expression in expressions:
            for text in scope.texts(expression):
                if text is None:
                    found.passed.add(scope.name)
                elif text.strip(f"{INSERTED}:; "):
                    found.texts.add(text)
    return found


@dataclass(frozen=True)
class _Scope:
    """A function, in which the names of an expression have values."""

    module: ModuleType
    function: _Function

    @property
    def name(self) -> str:
        return f"{self.module.__name__.rsplit('.', 1)[-1]}.{self.function.name}"

    def texts(self, expression: ast.expr) -> Iterator[str | None]:
        """Yield the texts that an expression may have, and None if it may have other values."""
        match expression:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Constant(value=None):
                pass
            case ast.JoinedStr(values=parts):
                for combination in product(*map(self._inserted, parts)):
                    yield "".join(combination)
            case ast.Call(func=ast.Name(id=name), args=[text, *_]) if name in _SHORTENED:
                yield from self.texts(text)
            case ast.IfExp(body=body, orelse=other):
                yield from self.texts(body)
                yield from self.texts(other)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self.texts(value)
            case ast.Name(id=name):
                yield from self._named(name)
            case _:
                yield None

    def _inserted(self, part: ast.expr) -> list[str]:
        """Return the texts of a part of an f-string; `…` if it is not known before it runs."""
        match part:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.FormattedValue(value=ast.Name() as value):
                texts = list(self.texts(value))
                return (
                    [text for text in texts if text] if texts and None not in texts else [INSERTED]
                )
            case _:
                return [INSERTED]

    def _named(self, name: str) -> Iterator[str | None]:
        values = list(_assigned(self.function, name))
        for value in values:
            yield from self.texts(value)
        constant = getattr(self.module, name, None)
        if isinstance(constant, str):
            yield str(constant)
        elif not values:
            yield None


def _assigned(function: _Function, name: str) -> Iterator[ast.expr]:
    """Yield the expressions that a function assigns to a name."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[target], value=value):
                yield from _part(target, value, name)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _part(target, value, name)
            case ast.NamedExpr(target=target, value=value):
                yield from _part(target, value, name)
            case ast.For(target=target, iter=ast.Tuple(elts=values)):
                for value in values:
                    yield from _part(target, value, name)
            case _:
                pass


def _part(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yield the part of a value that is assigned to a name, also of a tuple."""
    match target, value:
        case ast.Name(id=found), _ if found == name:
            yield value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            for inner, each in zip(targets, values, strict=True):
                yield from _part(inner, each, name)
        case ast.Tuple(), ast.IfExp(body=body, orelse=other):
            yield from _part(target, body, name)
            yield from _part(target, other, name)
        case _:
            pass


def _expressions(sink: Sink) -> Iterator[tuple[_Scope, ast.expr]]:
    for module, functions in _functions(sink.package).items():
        for function in functions if not sink.without or sink.without not in module else ():
            scope = _Scope(importlib.import_module(module), function)
            for expression in _in_function(function, sink):
                yield scope, expression


def _in_function(function: _Function, sink: Sink) -> Iterator[ast.expr]:
    for node in _own_nodes(function):
        match node:
            case ast.Return(value=ast.expr() as value) if sink.argument is None:
                if function.name == sink.name:
                    yield value
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == sink.name:
                if isinstance(sink.argument, int) and len(node.args) > sink.argument:
                    yield node.args[sink.argument]
                yield from (each.value for each in node.keywords if each.arg == sink.argument)
            case _:
                pass


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            each
            for each in ast.iter_child_nodes(node)
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]


@cache
def _functions(package: str) -> Mapping[str, tuple[_Function, ...]]:
    """Return the functions of each module of a package; its module-level code counts as one."""
    found: dict[str, tuple[_Function, ...]] = {}
    for module, path in _modules(package):
        tree = ast.parse(path.read_text())
        inside = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        body: list[ast.stmt] = [
            node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)
        ]
        level = ast.FunctionDef("<module>", ast.arguments([], [], None, [], [], None, []), body, [])
        found[module] = (level, *inside)
    return found


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    relative = Path(*package.split("."))
    for folder in _FOLDERS:
        root = ROOT / folder
        file = (root / relative).with_suffix(".py")
        paths = [file] if file.is_file() else sorted((root / relative).rglob("*.py"))
        for path in paths:
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path
