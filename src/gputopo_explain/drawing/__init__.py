"""Pictures of a node: where its GPUs are drawn, its types of links, and the SVG text."""
