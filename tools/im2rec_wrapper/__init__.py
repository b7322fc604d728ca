"""Pack images into RecordIO files: `python -m tools.im2rec_wrapper --help`."""
