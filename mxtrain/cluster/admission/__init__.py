"""Admission to a job: who takes part in it, in which place, and from which checkpoint it goes on."""
