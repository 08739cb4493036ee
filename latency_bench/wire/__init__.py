"""Load and latency over the wire only."""
