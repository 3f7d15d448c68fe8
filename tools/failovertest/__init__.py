"""Kills or freezes the leading scheduler during a burst, and measures the fail-over."""
