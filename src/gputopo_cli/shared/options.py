"""Options that several commands share, and the registration of commands with Typer."""

from collections.abc import Callable, Collection
from dataclasses import is_dataclass
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Literal

import typer

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo_cli.shared.arguments import MAX_INTEGER, parse_policy, to_word

NEGATIVE_RESULT: Final = 3
"""Exit status if the input is valid, but nothing fits or ``doctor`` found an error."""


def add_command(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Register a command. Each field of a dataclass parameter becomes an option.

    For example, ``place(options: PlaceOptions, form: Form)`` gets one command-line option for each
    field of ``PlaceOptions`` and the option ``--form``. ``place`` receives a ``PlaceOptions``.
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    options: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            group: Any = parameter.annotation
            fields = list(signature(group, eval_str=True).parameters.values())
            groups[parameter.name] = (group, [field.name for field in fields])
            options += fields
        else:
            options.append(parameter)

    def run(**values: Any) -> None:  # noqa: ANN401 - values of any option
        for parameter_name, (group, names) in groups.items():
            values[parameter_name] = group(**{name: values.pop(name) for name in names})
        command(**values)

    keywords = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    run.__doc__ = command.__doc__
    run.__annotations__ = {option.name: option.annotation for option in keywords}
    run.__signature__ = signature(command).replace(parameters=keywords)  # type: ignore[attr-defined]
    app.command(name)(run)


def new_group(description: str, status: int = 0) -> typer.Typer:
    """Return a group of commands. If the user names no command, the group prints its help."""
    group = typer.Typer(rich_markup_mode=None, help=description)

    @group.callback(invoke_without_command=True)
    def _group(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit(status)

    return group


def complete(words: Collection[str]) -> Callable[[str], list[str]]:
    """Return a completion function: it returns the ``words`` that start with the typed text."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_topologies(incomplete: str) -> list[str]:
    """Return the names of servers in the catalogue that start with ``incomplete``."""
    from gputopo import catalogue

    return complete(catalogue.all_names())(incomplete)


TableOrJson = Annotated[
    Literal["table", "json"],
    typer.Option("-o", "--output", metavar="table|json", help="Output format."),
]

TableJsonOrSvg = Annotated[
    Literal["table", "json", "svg"],
    typer.Option("-o", "--output", metavar="table|json|svg", help="Output format."),
]

OutputFile = Annotated[
    str | None,
    typer.Option(
        "--output-file", metavar="FILE", help="Write to this file instead of standard output."
    ),
]

TopologyOption = Annotated[
    str,
    typer.Option(
        "--topology",
        metavar="NAME|FILE|NODE",
        autocompletion=complete_topologies,
        help="A name from `gputopo topology list`, a file (- is standard input) or a node of the"
        " cluster.",
    ),
]

ClusterContext = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="NAME", help="Context of the kubeconfig; the current one by default."
    ),
]

Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Only this namespace instead of all."),
]

PATTERN_WORDS: Final = tuple(map(to_word, PatternKind))
POLICY_WORDS: Final = tuple(map(to_word, PolicyName))

_POLICY: Final[Any] = typer.Option(
    "--policy",
    metavar="POLICY",
    parser=parse_policy,
    show_default="preserve",
    autocompletion=complete(POLICY_WORDS),
    help=f"{', '.join(POLICY_WORDS[:-1])} or {POLICY_WORDS[-1]}.",
)

PolicyOption = Annotated[PolicyName, _POLICY]

AnyPolicyOption = Annotated[PolicyName | None, _POLICY]
"""The same; None if the user names no policy."""

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL|FILE",
        show_default="the best valid one",
        help="A bandwidth model from `gputopo bandwidth list`, or the JSON file of a fitted one.",
    ),
]

JobsOption = Annotated[
    str | None,
    typer.Option("--jobs", metavar="FILE", help="The list of jobs; - is standard input."),
]


def seed_option(default: int) -> Any:  # noqa: ANN401 - as typer.Option
    """Return the option --seed, whose value is None if it is not given."""
    return typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=MAX_INTEGER,
        show_default=f"{default}",
        help="Seed of --generate; equal seeds generate equal jobs.",
    )


SeedOption = Annotated[int | None, seed_option(1)]

AsReleasedOption = Annotated[
    bool,
    typer.Option(
        "--as-released",
        help="Behave as the released program of the paper, to repeat its results.",
    ),
]

PlotsOption = Annotated[
    str | None,
    typer.Option("--plots", metavar="DIR", help="Write plots as SVG files to this folder."),
]
