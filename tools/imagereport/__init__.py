"""``tools/sbom``: sizes and SBOMs of the built images of the components."""
