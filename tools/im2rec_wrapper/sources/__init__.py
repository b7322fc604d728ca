"""Where items to pack come from: a module for each kind of source, and `kinds.py` that tells which one it is."""
