"""The API server as this node's agent uses it: connection, pods, Node, events."""
