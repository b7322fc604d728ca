"""The flags of a side's process, with the standard library alone: each environment has it."""

from __future__ import annotations

import argparse
import json

BATCH_SIZE = 64


def parse() -> argparse.Namespace:
    """Return what a side is to do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--began", type=float, required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first-only", action="store_true")
    return parser.parse_args()


def print_turn(began: float, opened: float, first: float, last: float, samples: int, num_bytes: int) -> None:
    """Print what a side did: the times when it was opened and had its first and its last batch, and how much came."""
    times = {"opened": opened - began, "first": first - began, "seconds": last - opened}
    print(json.dumps({**times, "samples": samples, "bytes": num_bytes}), flush=True)
