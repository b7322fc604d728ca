"""The sources of items to pack: a module for each kind of source, and `kinds.py`, which recognises the kind."""
