"""A thousand nodes that kwok plays, on a real control plane: how fast pods are placed."""
