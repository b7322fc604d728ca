"""The tool that packs, checks and shows .rec files: `python -m tools.im2rec_wrapper --help` in a checkout.

Installed it is `python -m im2rec_wrapper`, or the command of that name. Its imports of itself are relative, so that it
works by both names.
"""


def command() -> None:
    """Be `python -m im2rec_wrapper`: what the installed command calls."""
    import sys

    from mxtrain.core import command_name

    command_name.run("im2rec_wrapper", "im2rec_wrapper", sys.argv[1:])
