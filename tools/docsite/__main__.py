"""Writes the generated pages of ``docs/reference/``."""

from docsite.reference import ROOT, generated_pages


def main() -> None:
    """Write each page."""
    for path, text in generated_pages().items():
        (ROOT / path).write_text(text)
        print(path)


if __name__ == "__main__":
    main()
