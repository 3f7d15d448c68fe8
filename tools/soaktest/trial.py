"""Setup and output that all tools for the local cluster share."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from localcluster.errors import ClusterError
from showcase import install
from showcase.kubectl import KubectlError
from soaktest.client import RejectedError, UnavailableError
from soaktest.termination import sigterm_interrupts

FAILURES = (  # what ends a trial with a message
    UnavailableError,
    ClusterError,
    KubectlError,
    RejectedError,
    TimeoutError,
    subprocess.CalledProcessError,
)


@contextmanager
def trial(*, keep_cluster: bool = False) -> Iterator[None]:
    """Remove the cluster at the end unless it was there before.

    Args:
        keep_cluster: never remove it.

    Raises:
        SystemExit: 2 if the trial could not run, 130 if it was interrupted by Ctrl-C or SIGTERM.
    """
    keep = keep_cluster or install.cluster_is_running()
    with sigterm_interrupts():
        try:
            yield
        except FAILURES as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            print("\ninterrupted", file=sys.stderr)
            raise SystemExit(130) from None
        finally:
            if not keep:
                install.remove_cluster()


def write(form: str, document: Mapping[str, object], lines: Iterable[str]) -> None:
    """Print the result as JSON or as a table."""
    print(json.dumps(document, indent=2) if form == "json" else "\n".join(lines), flush=True)
