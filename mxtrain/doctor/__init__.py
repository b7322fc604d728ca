"""Examinations: of this machine, of a cluster's hosts, of a run's speed, and of a net and its loss."""
