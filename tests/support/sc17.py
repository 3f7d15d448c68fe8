"""Measured times, job lists and results of the SC '17 authors."""

import csv
from functools import cache
from importlib.resources import files
from pathlib import Path

from gputopo_simulate.sc17.joblists import authors_list
from gputopo_simulate.sc17.model import CaffeJob
from gputopo_simulate.sc17.profiles import CaffeProfiles, parse_profiles

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/sc17"
SHIPPED = files("gputopo_simulate.sc17") / "data"
POLICY_OF = {"FCFS": "fcfs", "BF": "bf", "TOPO": "topo-aware", "TOPO-P": "topo-aware-p"}


@cache
def profiles() -> CaffeProfiles:
    return parse_profiles(shipped("sc17_solo.csv"), shipped("sc17_collocation.csv"))


def shipped(name: str) -> str:
    return (SHIPPED / name).read_text(encoding="utf-8")


@cache
def jobs_of(name: str) -> tuple[CaffeJob, ...]:
    return authors_list(name, shipped("sc17_workloads.csv"))


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of results."""
    lines = (DATA / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def job(
    number: int,
    gpus: int = 1,
    arrival: float = 0,
    net: str = "bvlc_alexnet",
    batch: int = 1,
    min_utility: float = 0.5,
) -> CaffeJob:
    return CaffeJob(number, arrival, net, batch, gpus, min_utility)
