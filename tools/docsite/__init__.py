"""The documentation site: MkDocs hooks, and reference pages that are generated from the code."""
