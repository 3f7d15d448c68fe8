"""Returns the generated pages of ``docs/``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docsite.commands import commands_page
from docsite.fields import fields_page
from docsite.permissions import permissions_page
from docsite.values import values_page
from docsite.written_fields import security_page

ROOT: Final = Path(__file__).parents[2]
_CHART: Final = ROOT / "charts/gputopo"


def _texts(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.rglob("*.yaml"))]


_SECURITY: Final = "docs/operate/security.md"

GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/commands.md": commands_page,
    "docs/reference/fields.md": lambda: fields_page(_texts(ROOT / "crds")),
    "docs/reference/permissions.md": lambda: permissions_page(_texts(_CHART / "templates")),
    _SECURITY: lambda: security_page((ROOT / _SECURITY).read_text()),
    "docs/reference/values.md": lambda: values_page((_CHART / "values.yaml").read_text()),
}
"""Makes the text of each generated page, by its path in the repository."""
