"""Plugin of all tests. In the root: mypy would find a second module conftest beside tests/e2e's."""

pytest_plugins = (
    "support.worker_processes",
    "support.untimed_examples",
    "support.untraced_tests",
    "support.order_of_modules",
)
