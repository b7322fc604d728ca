"""Training of a net of which a worker holds only the segment that it computes (`--hold layers`, docs/adr/0052)."""
