"""Returns the generated pages of ``docs/reference/``."""

from pathlib import Path
from typing import Final

from docsite.commands import commands_page
from docsite.fields import fields_page
from docsite.permissions import permissions_page
from docsite.values import values_page

ROOT: Final = Path(__file__).parents[2]


def generated_pages() -> dict[str, str]:
    """Return the text of each generated page, by its path in the repository."""
    chart = ROOT / "charts/gputopo"
    definitions = [path.read_text() for path in sorted((ROOT / "crds").glob("*.yaml"))]
    templates = [path.read_text() for path in sorted((chart / "templates").rglob("*.yaml"))]
    return {
        "docs/reference/commands.md": commands_page(),
        "docs/reference/fields.md": fields_page(definitions),
        "docs/reference/permissions.md": permissions_page(templates),
        "docs/reference/values.md": values_page((chart / "values.yaml").read_text()),
    }
