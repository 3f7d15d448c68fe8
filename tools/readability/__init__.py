"""Draw random passages of the project's text, so that a new reader can judge how clear it is."""
