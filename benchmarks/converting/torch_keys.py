"""A script for a Python that has torch: the keys of the nets of torchvision and timm, as a JSON for the tests.

    python torch_keys.py LIBRARY/NET ... > tests/data/torch_keys.json

For each net of ten classes the number of keys of its state_dict, and the SHA-256 of its sorted lines of key and shape.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mxtrain" / "convert" / "torch"))


def main() -> None:
    import torch_outputs

    found = {}
    for text in sys.argv[1:]:
        library, name = text.split("/")
        keys = torch_outputs.net_of(library, name, 10, 3).state_dict()
        lines = sorted(f"{key} {list(array.shape)}" for key, array in keys.items())
        found[text] = [len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
