"""A script for a Python that has torch: what nets of torchvision and timm answer, as a JSON for the tests.

    python torch_answers.py LIBRARY/NET ... > tests/data/torch_answers.json

Each net of ten classes takes the weights that its own keys and shapes give (`seeded.py`) and answers two pictures of 32
pixels (vggs of timm: 224).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "mxtrain" / "convert" / "torch")]


def main() -> None:
    import seeded
    import torch_outputs

    found = {}
    for text in sys.argv[1:]:
        library, name = text.split("/")
        image_size = 224 if text.startswith("timm/vgg") else 32
        net = torch_outputs.net_of(library, name, 10, 3)
        weights = {
            key: torch.from_numpy(seeded.weight(key, tuple(array.shape)))
            for key, array in net.state_dict().items()
        }
        net.load_state_dict(weights, strict=True)
        with torch.no_grad():
            answers = net.eval()(torch.from_numpy(seeded.pictures(image_size)))
        assert torch.isfinite(answers).all(), text
        found[text] = {"image_size": image_size, "answers": answers.tolist()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
