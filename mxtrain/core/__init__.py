"""Parts that all others build on. Commands import it first, so it tells of a folder in the package's place."""

import sys
from pathlib import Path

import mxtrain

# Python takes a folder without an __init__.py for the package, as a checkout is to what starts beside it, before it
# asks where an editable installation is. Parts of that are found, others not.
if getattr(mxtrain, "__file__", None) is None:
    hiding = ", ".join(map(str, map(Path.absolute, map(Path, mxtrain.__path__))))
    sys.stderr.write(
        f"mxtrain: the folder {hiding} hides the installed package; start this in another folder\n"
    )
    sys.exit(2)  # USAGE of core/errors.py, which is part of the package
