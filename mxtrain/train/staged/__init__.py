"""Training of a net whose layers lie on several devices (`--stages`)."""
