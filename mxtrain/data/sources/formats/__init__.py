"""The formats that sources have: a module for each, named in `source_types.py`."""
