"""The program of the image: serves the page in a cluster, behind an authenticating proxy."""

import argparse
import logging
import sys
from collections.abc import Sequence

from gputopo.api.names import RESOURCE
from gputopo.errors import GputopoError
from gputopo.runtime.log import configure, fields
from gputopo_web.server.run import WebOptions, serve

_log = logging.getLogger("gputopo_web")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page with the service account of the pod, until SIGTERM."""
    options = parse(arguments)
    configure("info", quiet=("kubernetes", "urllib3"))
    try:
        serve(options, lambda served: _log.info("serving %s", fields(url=served.url)))
    except GputopoError as error:
        sys.stderr.write(f"gputopo-web: {error}\n")
        return 1
    return 0


def parse(arguments: Sequence[str] | None) -> WebOptions:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser("gputopo-web", description=__doc__)
    parser.add_argument("--host", default="", help="address to serve on; all without it")
    parser.add_argument("--port", type=int, default=8080, help="port to serve on")
    parser.add_argument("--namespace", default="", help="only jobs of this namespace")
    parser.add_argument(
        "--installation-namespace", default="", help="read the settings of gputopo only here"
    )
    parser.add_argument("--resource", default=RESOURCE, help="extended resource of GPUs")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        help="name that the Host header may have; repeat the option for several names",
    )
    found = parser.parse_args(arguments)
    return WebOptions(
        host=found.host,
        port=found.port,
        namespace=found.namespace or None,
        resource=found.resource,
        installation=found.installation_namespace or None,
        allowed_hosts=tuple(found.allowed_host),
        service_account=True,
    )


if __name__ == "__main__":
    sys.exit(main())
