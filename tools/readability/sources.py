"""List and read the files whose text is judged, from the working tree or from a Git revision."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FOLDERS: Final = ("src/", "operator/", "extender/", "deviceplugin/", "sdk/", "docs/", "charts/")
_PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")


def read_sources(root: Path, ref: str | None) -> Iterator[tuple[str, str]]:
    """Yield path and text of each judged file, sorted by path; ``ref`` is a Git revision."""
    listed = ["ls-files", "-co", "--exclude-standard"]
    if ref is not None:
        listed = ["ls-tree", "-r", "--name-only", "--full-tree", ref]
    for path in sorted(filter(is_judged, _git(root, *listed).splitlines())):
        if ref is not None:
            yield path, _git(root, "show", f"{ref}:{path}")
        elif (root / path).exists():  # a deleted file stays in Git's index until the next commit
            yield path, (root / path).read_text()


def is_judged(path: str) -> bool:
    """Return whether a file has text for readers of code, documentation or the chart."""
    if not path.startswith(_FOLDERS):
        return path in _PAGES
    if path.startswith("charts/"):
        return path.endswith((".yaml", ".tpl", ".txt")) and "/crds/" not in path
    return path.endswith((".py", ".md")) and not path.endswith(_GENERATED)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout
