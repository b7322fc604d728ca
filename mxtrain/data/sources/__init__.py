"""The sources of items to pack: a module for each type, named in `source_types.py`, told apart in `recognise.py`."""
