"""The flags of a side's process, with the standard library alone: each environment has it."""

from __future__ import annotations

import argparse

BATCH_SIZE = 64


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--began", type=float, required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first-only", action="store_true")
    return parser.parse_args()
