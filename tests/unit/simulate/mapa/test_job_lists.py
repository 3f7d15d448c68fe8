from pathlib import Path

import pytest

from gputopo.patterns.model import PatternKind
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.joblists import parse_jobs

DATA = Path(__file__).parents[3] / "data" / "mapa"


def test_rows_of_mapa_have_their_numbers_as_ids() -> None:
    jobs = parse_jobs((DATA / "jobs_seed1.csv").read_text())
    assert [job.id for job in jobs] == list(range(300))
    first, second = jobs[:2]
    assert (first.pattern.size, first.arrival, first.service) == (2, 6, 24)
    assert (first.sensitive, first.workload) == (False, "googlenet.sh")
    assert (second.pattern.size, second.sensitive) == (5, True)


def test_older_rows_of_mapa_have_no_arrival_and_other_pattern_names() -> None:
    jobs = parse_jobs((DATA / "jobs_2020.csv").read_text())
    assert len(jobs) == 25
    kinds = [job.pattern.kind for job in jobs[:7]]
    assert kinds[:3] == [PatternKind.TREE, PatternKind.RING, PatternKind.RING]
    assert kinds[6] is PatternKind.ALL_TO_ALL
    assert [job.service for job in jobs[:3]] == [12, 19, 23]
    assert not jobs[1].sensitive
    assert jobs[2].sensitive


def test_columns_of_a_header_may_have_any_order() -> None:
    text = "service,gpus,id,pattern,sensitive,workload,arrival\n3.5,2,a,all-to-all,false,bert,1\n"
    (job,) = parse_jobs(text)
    assert (job.id, job.service, job.arrival, job.workload) == ("a", 3.5, 1, "bert")
    assert job.pattern.kind is PatternKind.ALL_TO_ALL
    assert not job.sensitive


def test_header_may_have_the_names_of_mapas_lists_and_a_seed() -> None:
    ours = parse_jobs(
        "id,gpus,pattern,arrival,service,sensitive,workload\n4,3,ring,32,20,1,alexnet\n"
    )
    rows = "1,4,3,ring,32,20,1,alexnet\n"
    for sensitive, workload in (("bw_sensitive", "net"), ("bwSensitive", "script")):
        header = f"seed,job,gpus,pattern,arrival,service,{sensitive},{workload}\n"
        assert parse_jobs(header + rows) == ours
    with pytest.raises(SimulationError, match="line 1: column 'id' occurs twice"):
        parse_jobs("job,id,gpus,service\n1,1,2,3\n")


def test_json_is_a_list_or_an_object_with_one() -> None:
    text = '[{"gpus": 3, "service": 2, "pattern": "RingTree", "id": "x"}]'
    assert parse_jobs(text) == parse_jobs(f'{{"jobs": {text}}}')
    assert parse_jobs(text)[0].pattern.kind is PatternKind.RING_TREE


def test_json_may_have_edges() -> None:
    (job,) = parse_jobs(
        '[{"gpus": 3, "service": 2, "pattern": "custom", "edges": [{"from": 0, "to": 2}]}]'
    )
    assert [(edge.a, edge.b) for edge in job.pattern.edges] == [(0, 2)]


def test_job_of_several_gpus_is_sensitive_by_default() -> None:
    jobs = parse_jobs("gpus,service\n1,5\n2,5\n")
    assert [job.sensitive for job in jobs] == [False, True]


def test_numeric_ids_are_numbers_and_missing_ids_are_row_numbers() -> None:
    jobs = parse_jobs("id,gpus,service\n7,1,5\nx7,1,5\n,1,5\n")
    assert [job.id for job in jobs] == [7, "x7", 2]


def test_empty_lines_and_comments_are_ignored() -> None:
    assert len(parse_jobs("\n# mine\n1,ring,0,5,1,a\n\n , ,\n2,ring,0,5,1,b\n")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs: the list is empty"),
        ("# nothing\n", "jobs: the list is empty"),
        ("gpus,service\n", "jobs: the list is empty"),
        ("[]", "jobs: the list is empty"),
        ("1,ring,5\n", "line 1: 3 columns; rows without a header need 6"),
        ("1,ring,0,5,1,a\n2,ring\n", "line 2: 2 columns; expected 6"),
        ("x,ring,0,5,1,a\n", "line 1: column 'x' is not one of id, gpus, pattern"),
        ("gpus,gpus\n1,1\n", "line 1: column 'gpus' occurs twice"),
        ("gpus,service\n\n2,5\nx,5\n", "line 4, gpus: 'x'"),
        ("gpus,arrival\n2,5\n", "line 2, service: is required"),
        ("17,ring,0,5,1,a\n", "line 1, gpus: '17'"),
        ("1,ring,-1,5,1,a\n", "line 1, arrival: '-1'"),
        ("1,ring,0,0,1,a\n", "line 1, service: '0'"),
        ("1,ring,0,nan,1,a\n", "line 1, service: 'nan'"),
        ("1,ring,0,5,2,a\n", "line 1, sensitive: '2'"),
        (
            "1,torus,0,5,1,a\n",
            "pattern: 'torus' is not one of ring, tree, ring-tree, chain, star, all-to-all, custom",
        ),
        (
            "gpus,service,pattern\n2,5,custom\n",
            "line 2, pattern: 'custom' needs edges; edges can be given in a JSON job list only",
        ),
        ("gpus,service,edges\n2,5,x\n", "'edges' is not .*; edges can be given in a JSON job list"),
        ('[{"gpus": 2, "service": 1, "pattern": "custom"}]', r"jobs\[0\].edges: a Custom pattern"),
        ("id,gpus,service\na,1,5\na,1,5\n", "job 'a': id: used by another job"),
        ('gpus,service\n1,"5\n', "line 2: unexpected end of data"),
        ("{}", r"JSON must be a list of jobs, or"),
        ("[1]", r"jobs\[0\]: 1: Input should be a valid dictionary"),
        ('[{"gpus": 1,}]', "line 1, column 13"),
        ("[" * 100_000, "invalid JSON"),
        ('[{"gpus": ' + "9" * 5_000 + "}]", "invalid JSON"),
        ('[{"gpus": "1", "service": 1}]', r"jobs\[0\].gpus: '1'"),
        ('[{"gpus": 2, "service": 1, "pattern": "torus"}]', r"jobs\[0\].pattern: 'torus' is not"),
        ('[{"gpus": 1, "service": 1, "id": 1.5}]', r"jobs\[0\].id: 1.5"),
        ('[{"gpus": 1, "service": 1, "id": 1' + "0" * 18 + "}]", r"jobs\[0\].id: 10{18}: "),
        ('[{"gpus": 1, "service": 1, "id": "' + "x" * 254 + '"}]', r"id: 'x{79}\.\.\.: "),
        ('[{"gpus": 1, "service": 1, "time": 3}]', r"jobs\[0\].time: there is no such field"),
        (
            '[{"gpus": 2, "service": 1, "edges": [{"from": 0, "to": 99}]}]',
            r"jobs\[0\].edges\[0\].to: 99",
        ),
        ("1," + "r" * 500 + ",0,5,1,a\n", r"pattern: 'r{79}\.\.\. is not one of"),
    ],
)
def test_invalid_list_is_rejected_with_line_column_and_value(text: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        parse_jobs(text)
