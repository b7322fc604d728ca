"""Rewrites that put operators of mxtrain's own (`native/operators/`) into the graphs that nets train by."""
