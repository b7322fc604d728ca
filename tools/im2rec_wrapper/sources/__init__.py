"""The sources of items to pack: a module for each type, and `source_types.py`, which recognises the type."""
