"""Options, input, output and errors that all commands share."""
