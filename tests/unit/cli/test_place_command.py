"""``gputopo place``: figures of the paper, exact JSON, and invalid input."""

import pytest

from support.cli.command_line import Command

CONTRACT = {
    "gpus",
    "aggregateBandwidthGBps",
    "effectiveBandwidthGBps",
    "preservedBandwidthGBps",
    "policy",
    "model",
    "runnersUp",
}

POLICIES = "baseline, topo-aware, greedy, preserve, utility, weakest"
PATTERNS = "ring, tree, ring-tree, chain, star, all-to-all, custom"


@pytest.mark.parametrize(
    ("options", "gpus", "aggregate", "effective"),
    [
        ("--policy preserve", [4, 5, 7], 100.0, 44.127),
        ("--policy greedy", [1, 2, 5], 112.0, 30.004),
        ("--policy baseline", [1, 2, 4], 74.0, 10.445),
        ("--policy topo-aware", [4, 5, 7], 100.0, 44.127),
    ],
)
def test_policies_choose_the_gpus_of_the_paper_on_a_half_busy_dgx1(
    gputopo: Command, options: str, gpus: list[int], aggregate: float, effective: float
) -> None:
    line = "place --topology dgx1-v100 --gpus 3 --busy 0,3,6 --sensitive --model eq2 -o json"
    result = gputopo(f"{line} {options}").document
    assert sorted(result["gpus"]) == gpus
    assert result["aggregateBandwidthGBps"] == aggregate
    assert result["effectiveBandwidthGBps"] == pytest.approx(effective, abs=1e-3)


def test_json_has_the_guaranteed_keys(gputopo: Command) -> None:
    done = gputopo("place --topology dgx1-v100 --gpus 3 --model eq2 -o json --runners-up 2")
    assert done.status == 0
    result = done.document
    assert result.keys() >= CONTRACT
    assert result["gpus"] == [0, 2, 3]
    assert (result["aggregateBandwidthGBps"], result["effectiveBandwidthGBps"]) == (125.0, 57.858)
    assert (result["policy"], result["model"], result["pattern"]) == ("preserve", "eq2", "ring")
    assert len(result["runnersUp"]) == 2
    figures = {key for key in CONTRACT if key == "gpus" or key.endswith("GBps")}
    assert all(runner.keys() == figures for runner in result["runnersUp"])


def test_one_gpu_has_no_effective_bandwidth_and_no_model(gputopo: Command) -> None:
    result = gputopo("place --topology dgx1-v100 --gpus 1 -o json").document
    assert result["effectiveBandwidthGBps"] is None
    assert result["model"] is None
    assert result["sensitive"] is False
    assert "one GPU" in gputopo("place --topology dgx1-v100 --gpus 1").out


def test_job_with_several_gpus_is_sensitive_by_default(gputopo: Command) -> None:
    line = "place --topology dgx1-v100 --gpus 2 -o json"
    assert gputopo(line).document["sensitive"] is True
    assert gputopo(f"{line} --insensitive").document["sensitive"] is False


def test_job_that_does_not_fit_has_a_reason_and_status_3(gputopo: Command) -> None:
    done = gputopo("place --topology summit --gpus 3 --busy 0,1,2,3 -o json")
    assert done.status == 3
    assert done.document["gpus"] is None
    assert done.document["reason"] == "needs 3 GPUs, 2 free"
    assert done.err == ""
    table = gputopo("place --topology summit --gpus 7")
    assert table.status == 3
    assert table.out == "nothing fits summit: needs 7 GPUs, the node has 6\n"
    assert gputopo("place --topology summit --gpus 7 -o svg").status == 3


def test_table_shows_the_chosen_set_first(gputopo: Command) -> None:
    lines = gputopo("place --topology dgx1-v100 --gpus 3 --model eq2").out.splitlines()
    assert lines[0] == "GPUs 0, 2, 3 of dgx1-v100"
    assert lines[1] == "sensitive ring of 3, policy preserve, effective bandwidth by eq2"
    assert lines[4].split() == ["chosen", "0,", "2,", "3", "125", "57.858", "311"]
    assert len(lines) == 8


def test_custom_edges_define_the_pattern(gputopo: Command) -> None:
    result = gputopo("place --topology dgx1-v100 --gpus 3 --edges 0-1:2,1-2 -o json").document
    assert result["pattern"] == "custom"
    assert result["aggregateBandwidthGBps"] == 150.0


@pytest.mark.parametrize("word", ["ring-tree", "RingTree", "RING-TREE", "ringtree"])
def test_words_of_the_api_are_accepted(gputopo: Command, word: str) -> None:
    result = gputopo(f"place --topology dgx1-v100 --gpus 4 --pattern {word} -o json").document
    assert result["pattern"] == "ring-tree"


def test_bound_of_an_incomplete_search_is_shown(gputopo: Command) -> None:
    line = "place --topology cubemesh-16 --gpus 11 --pattern ring-tree"
    result = gputopo(f"{line} -o json").document
    assert result["aggregateBoundGBps"] > result["aggregateBandwidthGBps"]
    assert "a better rank order of these GPUs may exist, of up to" in gputopo(line).out


def test_picture_marks_ranks_busy_gpus_and_used_links(gputopo: Command) -> None:
    out = gputopo("place --topology dgx1-v100 --gpus 3 --busy 6 -o svg").out
    assert out.startswith("<svg ")
    assert [f">rank {rank}<" in out for rank in range(4)] == [True, True, True, False]
    assert out.count(">busy<") == 1
    assert "used by the job" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "gpus: is required"),
        ("--gpus", "Option '--gpus' requires an argument."),
        ("--gpus three", "gpus: 'three': Input should be a valid integer"),
        ("--gpus -1", "gpus: '-1': Input should be greater than or equal to 1"),
        ("--gpus 0", "gpus: '0': Input should be greater than or equal to 1"),
        ("--gpus 17", "gpus: '17': Input should be less than or equal to 16"),
        (f"--gpus {'9' * 5000}", f"gpus: '{'9' * 79}...: Unable to parse input string"),
        ("--gpus ²", "gpus: '²': Input should be a valid integer"),
        ("--gpus 3 --busy 0,0,99", "busy: GPU 0 is listed twice"),
        (
            "--gpus 3 --busy 99",
            "busy: 99 is not one of this node's GPUs (0, 1, 2, 3, 4, 5, 6, 7)",
        ),
        ("--gpus 3 --busy 1,,2", "busy: '' is not an integer in 0..999999999"),
        ("--gpus 3 --policy preserv", f"policy: 'preserv' is not one of {POLICIES}; did you mean"),
        ("--gpus 3 --pattern circle", f"pattern: 'circle' is not one of {PATTERNS}"),
        ("--gpus 3 --pattern custom", "edges: a Custom pattern needs at least one edge"),
        (
            "--gpus 3 --pattern ring --edges 0-1",
            "edges: allowed with Custom only, not with Ring",
        ),
        ("--gpus 3 --edges 0-1;", "edges: '0-1;' is not written as 0-1 or 0-1:2"),
        ("--gpus 3 --edges 0-1,", "edges: '' is not written as 0-1 or 0-1:2"),
        ("--gpus 3 --edges 0-3", "edges[0].to: 3 is not a rank of 3 GPUs (0..2)"),
        ("--gpus 3 --edges 0-16", "edges: '16' is not an integer in 0..15"),
        ("--gpus 3 --edges 1-1", "edges[0]: rank 1 is connected with itself"),
        ("--gpus 3 --edges 0-1:0", "edges: '0' is not an integer in 1..1000"),
        ("--gpus 3 -o yaml", "output: 'yaml' is not one of 'table', 'json', 'svg'"),
        (
            "--gpus 3 --runners-up 1001",
            "runners-up: '1001': Input should be less than or equal to 1000",
        ),
        ("--gpus 3 --busi 1", "No such option: --busi"),
        ("--gpus 3 4", "Got unexpected extra argument(s) (4)"),
        ("--gpus 3 --output-file /nonexistent/x", "output-file: '/nonexistent/x' cannot be"),
    ],
)
def test_bad_input_is_one_line_and_status_2(gputopo: Command, options: str, message: str) -> None:
    done = gputopo(f"place --topology dgx1-v100 {options}")
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith(f"gputopo: {message}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "options", ["--gpus 6", "--gpus 3 --pattern tree", "--gpus 3 --topology dgx-a100"]
)
def test_eq2_is_rejected_outside_its_domain(gputopo: Command, options: str) -> None:
    done = gputopo(f"place --topology dgx1-v100 --model eq2 {options} -o json")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("gputopo: model: eq2 cannot be used here: ")
    assert done.err.count("\n") == 1


def test_empty_list_of_edges_is_rejected(gputopo: Command) -> None:
    done = gputopo("place --topology dgx1-v100 --gpus 3 --edges", "")
    assert (done.status, done.out) == (2, "")
    assert done.err == "gputopo: edges: '' is not written as 0-1 or 0-1:2\n"


def test_unknown_model_is_rejected_with_the_known_ones(gputopo: Command) -> None:
    done = gputopo("place --topology dgx1-v100 --gpus 3 --model eq3")
    assert done.status == 2
    assert done.err.startswith("gputopo: model: 'eq3' is not one of ")


def test_output_file_gets_the_result(gputopo: Command, tmp_path: object) -> None:
    path = f"{tmp_path}/answer.txt"
    done = gputopo("place --topology summit --gpus 2 --output-file", path)
    assert (done.status, done.out) == (0, "")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        assert file.readline() == "GPUs 0, 1 of summit\n"


def test_policy_utility_shows_the_terms(gputopo: Command) -> None:
    line = "place --topology dgx1-v100 --gpus 2 --busy 4,6 --policy utility --runners-up 1"
    assert (
        gputopo(line).out
        == """\
GPUs 5, 7 of dgx1-v100
sensitive ring of 2, policy utility, effective bandwidth by eq2

        GPUS IN RANK ORDER  AGGREGATE  EFFECTIVE  PRESERVED GB/s  UTILITY  COMMUNICATION  \
INTERFERENCE  FRAGMENTATION
chosen  5, 7                       50      27.72             225    1.000          1.000  \
       1.000          1.000
2.      0, 3                      100     58.925             161    0.782          1.000  \
       1.000          0.340
"""
    )
    found = gputopo(f"{line} -o json").document
    assert found["policy"] == "utility"
    assert found["utility"]["utilityPermille"] == 1000
    assert found["runnersUp"][0]["utility"]["fragmentationPermille"] == 340
    preserve = gputopo("place --topology dgx1-v100 --gpus 2 -o json").document
    assert "utility" not in preserve
