"""Runs the component until SIGTERM or SIGINT."""

from gputopo_kube.program import load_settings, run_program
from gputopo_mps.component import MpsComponent
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.settings import MpsSettings


def main() -> None:
    """Run the component. An invalid setting ends the process with a message and status 1."""
    settings, metrics = load_settings(MpsSettings), MpsMetrics()
    run_program(
        settings,
        metrics.registry,
        lambda client, pulse: MpsComponent(settings, client, metrics, pulse),
    )


if __name__ == "__main__":
    main()
