"""Which versions are tested, and what counts as tested."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from e2etest import __main__ as command
from e2etest import results, run
from e2etest.results import Outcomes, VersionResult
from kindcluster import record as kind_record
from kindcluster import settings as kind_settings
from kindcluster.record import KindRecord
from localcluster import binaries, preflight, state
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import KIND_STATE_VARIABLE, Paths
from localcluster.state import Record
from showcase import install

OLD, NEW = Release("1.34", "v1.34.10"), Release("1.36", "v1.36.4")
LACKING = "Kubernetes v1.34.10 does not serve MutatingAdmissionPolicy"

TESTS = f"""
import pytest

@pytest.fixture
def broken_at_the_end():
    yield
    raise OSError("stays")

def test_right():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_half(number):
    assert number == 1

def test_cleanup(broken_at_the_end):
    pass

def test_both(broken_at_the_end):
    assert False

def test_lacking():
    pytest.skip("{LACKING}")

def test_forgotten():
    pytest.skip("flaky")
"""


ON_KIND = """
import os, pytest

def test_platform():
    assert os.environ["GPUTOPO_E2E_CLUSTER"] == "kind"

def test_missing_action():
    pytest.skip("kind: no part of the control plane can be stopped")
"""

NO_CONFIGURATION = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=."]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "test_sample.py").write_text(TESTS)
    return folder


@pytest.mark.parametrize("text", ["", "no XML", "<testsuites>"])
def test_a_file_that_is_no_report_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a JUnit file"):
        results.parse_junit(text)


def test_a_skip_without_a_missing_feature_is_a_problem() -> None:
    skipped = {"a": LACKING, "b": "flaky"}
    found = VersionResult("v1.34.10", Outcomes(5, ["c"], skipped), 20, 60)
    assert found.problems == [
        "failed: c",
        "skipped for another reason than a missing feature or action: b: flaky",
    ]
    assert VersionResult("v1.34.10", Outcomes(5, [], {"a": LACKING}), 20, 60).problems == []


def test_a_run_that_broke_off_is_a_problem_though_no_test_failed() -> None:
    assert VersionResult("v1.34.10", Outcomes(5), 20, 60, "status 3").problems == ["status 3"]


def test_the_table_shows_figures_then_skips_then_problems() -> None:
    lines = list(
        results.table(
            [
                VersionResult("v1.34.10", Outcomes(40, ["x"], {"a": LACKING}), 23.4, 1320.2),
                VersionResult("v1.36.4", Outcomes(42), 22.6, 1301.0),
            ]
        )
    )
    assert [line.split() for line in lines[1:3]] == [
        ["v1.34.10", "40", "1", "1", "23", "1320"],
        ["v1.36.4", "42", "0", "0", "23", "1301"],
    ]
    assert lines[3:] == [f"v1.34.10: skipped a: {LACKING}", "v1.34.10: failed: x"]


def test_json_has_the_same_figures() -> None:
    found = VersionResult("v1.34.10", Outcomes(40, ["x"], {"a": LACKING}), 23.4, 1320.2)
    (version,) = json.loads(json.dumps(results.document([found])))["versions"]
    assert version == {
        "kubernetes": "v1.34.10",
        "passed": 40,
        "failed": ["x"],
        "skipped": {"a": LACKING},
        "startSeconds": 23.4,
        "testSeconds": 1320.2,
        "error": "",
    }


@pytest.mark.parametrize(
    ("requested", "chosen"),
    [
        ([], [NEW]),
        (["all"], [OLD, NEW]),
        (["v1.36.4", "1.34", "1.36"], [NEW, OLD]),
    ],
)
def test_versions_are_tested_in_the_given_order_and_once(
    requested: Sequence[str], chosen: Sequence[Release]
) -> None:
    assert command.choose(requested, [OLD, NEW]) == chosen


def test_an_unknown_version_ends_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "require_root", lambda: None)
    assert command.main(["--kubernetes", "1.36", "1.12"]) == 2
    assert "'1.12' is not supported; give one of 1.34" in capsys.readouterr().err


def test_a_running_cluster_is_left_alone(tmp_path: Path) -> None:
    paths = Paths(cache=tmp_path / "cache", state=tmp_path)
    run.require_no_cluster(paths)
    state.write(paths, Record("clone", "binaries", {"n1": "none"}, {}, []))
    with pytest.raises(ClusterError, match="tools/cluster down"):
        run.require_no_cluster(paths)


def test_a_running_cluster_of_kind_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KIND_STATE_VARIABLE, str(tmp_path))
    paths = kind_settings.current_paths()
    run.require_no_cluster(paths, "kind")
    kind_record.record_file(paths).write(
        KindRecord("clone", True, "v1.36.4", "image", [], {"n1": "none"}, {}, [])
    )
    with pytest.raises(ClusterError, match=r"tools/kind down.*GPUTOPO_E2E_CLUSTER=kind"):
        run.require_no_cluster(paths, "kind")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps on the cluster, which are not carried out."""
    made: list[str] = []
    monkeypatch.setattr(binaries, "ensure", lambda *_: made.append("build"))
    monkeypatch.setattr(install, "start_cluster", lambda version, _: made.append(version))
    monkeypatch.setattr(install, "remove_cluster", lambda _: made.append("remove"))
    return made


PATHS = Paths(cache=Path("/cache"), state=Path("/state"))


def test_each_test_counts_once_and_the_cluster_is_removed(calls: list[str], suite: Path) -> None:
    found = run.run_version(NEW, NO_CONFIGURATION, PATHS, suite)
    assert calls == ["build", "v1.36.4", "remove"]
    assert (found.kubernetes, found.error) == ("v1.36.4", "")
    assert found.tests.passed == 2
    assert sorted(found.tests.failed) == [
        *("test_sample::test_both", "test_sample::test_cleanup", "test_sample::test_half[2]"),
    ]
    assert found.tests.skipped == {
        "test_sample::test_lacking": LACKING,
        "test_sample::test_forgotten": "flaky",
    }
    assert found.test_seconds > 0


def test_on_kind_nothing_is_built_before_the_start(calls: list[str], suite: Path) -> None:
    (suite / "test_sample.py").write_text(ON_KIND)
    found = run.run_version(NEW, NO_CONFIGURATION, PATHS, suite, "kind")
    assert calls == ["v1.36.4", "remove"]
    assert (found.tests.passed, found.problems) == (1, [])


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (["-k", "no_such_test"], "pytest ended with status 5"),
        (["--no-such-option"], "pytest ended with status 4: "),
    ],
)
def test_a_run_without_tests_is_a_problem(
    calls: list[str], suite: Path, option: list[str], problem: str
) -> None:
    found = run.run_version(NEW, [*NO_CONFIGURATION, *option], PATHS, suite)
    assert found.problems[0].startswith(problem)
    assert calls[-1] == "remove"


def test_a_version_that_does_not_start_is_a_problem_and_is_removed(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise subprocess.CalledProcessError(1, ["tools/cluster", "up"])

    monkeypatch.setattr(install, "start_cluster", fails)
    found = run.run_version(NEW, [], PATHS)
    assert calls == ["build", "remove"]
    assert "no cluster: Command '['tools/cluster', 'up']'" in found.problems[0]


def test_one_version_with_problems_fails_the_whole_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tested(
        release: Release, options: Sequence[str], _: Paths, *, platform: str
    ) -> VersionResult:
        assert platform == "local"
        assert options == ["-k", "queue"]
        return VersionResult(release.version, Outcomes(3, ["x"] * (release.minor == "1.35")), 1, 2)

    monkeypatch.setattr(preflight, "require_root", lambda: None)
    monkeypatch.setattr(command, "require_no_cluster", lambda *_: None)
    monkeypatch.setattr(command, "run_version", tested)
    assert command.main(["--kubernetes", "1.34", "--", "-k", "queue"]) == 0
    assert command.main(["--kubernetes", "all", "-o", "json", "--", "-k", "queue"]) == 1
    document = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert [len(each["failed"]) for each in document["versions"]] == [0, 1, 0, 0]
