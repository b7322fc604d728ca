"""Owners of parameters: who holds weights, the sums of their gradients and the optimizer's state (docs/adr/0052)."""
