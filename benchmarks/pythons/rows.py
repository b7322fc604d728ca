"""The rows of docs/pythons.md: on which Pythons, NumPys and machines mxtrain is tried, and from what."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A Python, the NumPy that is there first or that pip takes, what is installed from, and on what machine."""

    python: str
    numpy: str
    source: str
    compiler: bool = True
    debian: str = ""

    def name(self) -> str:
        """Return what to call it, for people."""
        place = f"Debian's {self.debian}, no root" if self.debian else "this machine"
        compiler = "" if self.compiler else ", no compiler"
        return f"Python {self.python}, NumPy {self.numpy}, {self.source}, {place}{compiler}"


# Each value once, and the pairs that matter: the newest Python from each source, both NumPys on 3.11 and 3.12. A Debian
# has the Python of its suite.
ROWS = (
    Row("3.14", "2", "checkout", debian="forky"),
    Row("3.13", "2", "checkout", compiler=False, debian="trixie"),
    Row("3.11", "1", "checkout", compiler=False, debian="bookworm"),
    Row("3.13", "2", "checkout"),
    Row("3.13", "2", "wheel"),
    Row("3.13", "2", "sdist", compiler=False),
    Row("3.12", "2", "sdist"),
    Row("3.12", "1", "wheel"),
    Row("3.11", "2", "wheel"),
    Row("3.11", "1", "sdist"),
    Row("3.10", "1", "wheel", compiler=False),
    Row("3.9", "2", "wheel", compiler=False),
    Row("3.8", "1", "wheel"),
)
