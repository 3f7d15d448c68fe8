"""The Go modules under tools/binaries, from which the cluster's programs are built."""

import re

from localcluster.errors import ClusterError
from localcluster.settings import CLONE

MODULES = CLONE / "tools" / "binaries"
MODULE_FILES = ("go.mod", "go.sum")


def required_version(go_mod: str, module: str) -> str:
    """The version at which a go.mod requires a module.

    Raises:
        ClusterError: it does not require it.
    """
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError(f"go.mod does not require {module}")
    return found.group(1)
