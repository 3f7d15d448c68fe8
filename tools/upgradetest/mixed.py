"""Charts and images of the moments of an upgrade at which only some pods are new."""

import shutil
from collections.abc import Collection
from pathlib import Path

from upgradetest.previous import Version

AGENT = "agent"
SCHEDULER = "scheduler"

_TEMPLATES = {
    AGENT: ("deviceplugin.yaml",),
    SCHEDULER: ("scheduler.yaml", "scheduler-config.yaml"),
}
_IMAGES = {AGENT: ("devicePlugin",), SCHEDULER: ("extender",)}


def mixed_version(new: Version, old: Version, parts: Collection[str], folder: Path) -> Version:
    """Return the new version with the pods of some parts from the old one.

    During an upgrade, Helm has already replaced roles, policies and CRDs, while pods of the old
    version still run with their own arguments. So the templates of these parts are the old ones,
    and everything else is new.

    Args:
        new: version to which the installation is upgraded.
        old: version of the pods that were not replaced yet.
        parts: ``AGENT``, ``SCHEDULER``.
        folder: where the chart is written; it must not exist.
    """
    chart = folder / "charts" / "gputopo"
    shutil.copytree(new.chart, chart, symlinks=False)
    for part in parts:
        for template in _TEMPLATES[part]:
            shutil.copy(old.chart / "templates" / template, chart / "templates" / template)
    kept = {image: old.images[image] for part in parts for image in _IMAGES[part]}
    return Version(folder, {**new.images, **kept})
