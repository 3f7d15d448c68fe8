"""``gputopo bandwidth``: options and help texts."""

from typing import Annotated

import typer

from gputopo_cli.shared import options

app = options.new_group("List and fit models of the bandwidth between a job's GPUs.")


@app.command("list")
def list_models(form: options.TableOrJson = "table") -> None:
    """List the bandwidth models and where each is valid."""
    from gputopo_cli.bandwidth import fit as bandwidth

    bandwidth.list_models(form)


@app.command()
def fit(
    samples: Annotated[
        str,
        typer.Argument(
            metavar="SAMPLES.csv", help="CSV of measured bandwidths; - is standard input."
        ),
    ],
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE|NODE",
            autocompletion=options.complete_topologies,
            show_default="the links of a DGX-1 V100",
            help="Topology of the measured node; required if SAMPLES.csv has a column gpus.",
        ),
    ] = None,
    form: options.TableOrJson = "table",
    output_file: Annotated[
        str | None,
        typer.Option(
            "--output-file", metavar="MODEL.json", help="Write the fitted model to this file."
        ),
    ] = None,
) -> None:
    """Fit equation 2 of the MAPA paper to your own NCCL measurements.

    SAMPLES.csv has a column bandwidth_gbps. It also has either a column gpus (such as 0-3-4) or
    three columns with the number of links of each type in the ring: double, single and pcie.
    Other commands use the fitted model with --model.
    """
    from gputopo_cli.bandwidth.fit import fit_samples

    fit_samples(samples, topology, form, output_file)
