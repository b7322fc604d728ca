"""The parser of every command but fit, whose flags come from `config.py`: argparse, refusing in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from mxtrain.errors import UsageError


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")
