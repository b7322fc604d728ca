"""The tool that packs, checks and shows .rec files: `python -m tools.im2rec_wrapper --help`."""
