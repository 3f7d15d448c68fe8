"""Runs the test: ``python -m gputopo_operator.installtest``."""

import os
import sys

from gputopo.errors import GputopoError
from gputopo_kube.credentials import connected
from gputopo_operator.installtest.run import run_checks
from gputopo_operator.installtest.settings import InstallTestSettings
from gputopo_operator.installtest.verdict import has_failed, show


def main() -> None:
    """Print all checks; exit with status 1 if one has failed."""
    try:
        settings = InstallTestSettings.load(sys.argv[1:], os.environ)
        with connected(settings.timeout_seconds, InstallTestSettings.program) as api:
            checks = run_checks(api, settings)
    except GputopoError as error:
        sys.exit(f"{InstallTestSettings.program}: {error}")
    sys.stdout.write(show(checks, settings.output) + "\n")
    sys.exit(int(has_failed(checks)))


if __name__ == "__main__":
    main()
