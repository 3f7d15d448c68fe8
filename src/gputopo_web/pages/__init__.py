"""Renders what the page shows as HTML and SVG."""
