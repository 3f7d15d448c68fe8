"""Writes the generated pages of ``docs/``."""

from docsite.reference import GENERATED, ROOT


def main() -> None:
    """Write each page."""
    for path, make in GENERATED.items():
        (ROOT / path).write_text(make())
        print(path)


if __name__ == "__main__":
    main()
