"""Counts of a call trace."""

from calltracing.report import Call, fullest, lines, report

IMPORTS = {("verbs", "ledger"), ("verbs", "evaluate"), ("evaluate", "ledger")}
TRACE = [
    Call("server", "answer", "verbs", "filter"),
    Call("verbs", "filter", "ledger", "states"),
    Call("verbs", "filter", "evaluate", "evaluate"),
    Call("evaluate", "evaluate", "ledger", "changes"),
    Call("ledger", "changes", "ledger", "_count"),
]


def depends(importer: str, imported: str) -> bool:
    return (importer, imported) in IMPORTS


def test_a_module_entered_again_is_a_return() -> None:
    found = report("filter", TRACE, depends)
    assert found.path == ("verbs", "ledger", "evaluate", "ledger")
    assert (found.modules, found.functions, found.returns) == (3, 5, 1)
    assert found.upward == ()


def test_only_the_modules_of_a_package_are_counted() -> None:
    assert report("filter", TRACE, depends, "ledger").path == ("ledger",)


def test_a_call_into_a_module_that_imports_the_caller_is_upward() -> None:
    callback = Call("ledger", "changes", "verbs", "on_change")
    found = report("filter", [*TRACE, callback], depends)
    assert found.upward == (callback,)
    assert "    ledger:changes -> verbs:on_change" in list(lines([found]))


def test_the_record_with_the_most_calls_counts() -> None:
    assert fullest([("a", TRACE[:1]), ("a", TRACE), ("b", TRACE[:2])]) == {
        "a": TRACE,
        "b": TRACE[:2],
    }
