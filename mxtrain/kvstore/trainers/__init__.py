"""Trainers: what a step calls to have gradients summed and weights moved, by who holds them."""
