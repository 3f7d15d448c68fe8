"""Check dashboard and alerts of the chart with a real Prometheus on the local cluster."""
