"""What the commands do: read the input, ask the core, write the answer."""
