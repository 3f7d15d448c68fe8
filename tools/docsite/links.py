"""Where a file of the repository is in the documentation site, and the links to it.

Pages link to each other by their paths in the repository, so that the links work there too. The
site has another layout: the pages of ``docs/`` are at its root, the pages of ``PAGES`` are in
folders of the site, and every other linked file is a copy in ``files/``.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from posixpath import normpath, relpath
from typing import Final

PAGES: Final[Mapping[str, str]] = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "SECURITY.md": "operate/report-a-vulnerability.md",
    "benchmarks/README.md": "develop/benchmarks.md",
    "deviceplugin/README.md": "develop/agent.md",
    "extender/README.md": "develop/extender.md",
    "operator/README.md": "develop/operator.md",
    "sdk/README.md": "use/sdk.md",
}
"""Markdown files outside ``docs/`` that are pages of the site: path in the repository and there."""

_LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")


def to_site_path(path: str) -> str:
    """Return where a file of the repository is in the site.

    >>> to_site_path("docs/use/cli.md"), to_site_path("operator/README.md")
    ('use/cli.md', 'develop/operator.md')
    >>> to_site_path("examples/gpujob.yaml")
    'files/examples/gpujob.yaml'
    """
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def find_links(markdown: str, path: str) -> list[str]:
    """Return the files and folders of the repository to which the page at ``path`` links."""
    targets = (match[2] for match in _LINK.finditer(markdown))
    return [_resolve(path, target) for target in targets if _is_local(target)]


def rewrite_links(markdown: str, path: str) -> str:
    """Return the page with links that are valid in the site; ``path`` is that in the repository.

    >>> rewrite_links("[agent](../../deviceplugin/README.md#measuring)", "docs/use/measuring.md")
    '[agent](../develop/agent.md#measuring)'
    """
    folder = PurePosixPath(to_site_path(path)).parent

    def replace(match: re.Match[str]) -> str:
        if not _is_local(match[2]):
            return match[0]
        target = relpath(to_site_path(_resolve(path, match[2])), folder)
        return f"{match[1]}{target}{match[3] or ''}"

    return _LINK.sub(replace, markdown)


def _is_local(target: str) -> bool:
    return "://" not in target and not target.startswith("mailto:")


def _resolve(path: str, target: str) -> str:
    return normpath(PurePosixPath(path).parent / target)
