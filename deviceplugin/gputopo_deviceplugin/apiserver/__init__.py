"""The agent's access to the API server: connection, pods, Node and events."""
