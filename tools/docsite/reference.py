"""Returns the generated pages of ``docs/reference/``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docsite.commands import commands_page
from docsite.fields import fields_page
from docsite.permissions import permissions_page
from docsite.values import values_page

ROOT: Final = Path(__file__).parents[2]
_CHART: Final = ROOT / "charts/gputopo"


def _texts(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.rglob("*.yaml"))]


GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/commands.md": commands_page,
    "docs/reference/fields.md": lambda: fields_page(_texts(ROOT / "crds")),
    "docs/reference/permissions.md": lambda: permissions_page(_texts(_CHART / "templates")),
    "docs/reference/values.md": lambda: values_page((_CHART / "values.yaml").read_text()),
}
"""Makes the text of each generated page, by its path in the repository."""
