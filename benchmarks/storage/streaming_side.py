"""mosaicml-streaming on the same photographs in the same store, in a process of its own.

With its defaults, shuffled. Its workers hand out the bytes of JPEGs, decoded by nobody: a favour. Prints what
`mxtrain_side.py` does.

    python -m benchmarks.storage.streaming_side --pack FOLDER SAMPLES OUT      writes its shards
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.storage.turn import BATCH_SIZE, parse, print_turn

NUM_CLASSES = 10


def pack(folder: Path, num_samples: int, out: Path) -> None:
    """Write shards of their default size."""
    from streaming import MDSWriter

    jpegs = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))]
    with MDSWriter(out=str(out), columns={"image": "bytes", "label": "int"}) as writer:
        for number in range(num_samples):
            writer.write({"image": jpegs[number % len(jpegs)], "label": number % NUM_CLASSES})


def main() -> None:
    if sys.argv[1] == "--pack":
        pack(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    options = parse()
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(
        remote=options.address,
        local=options.cache,
        shuffle=True,
        batch_size=BATCH_SIZE,
        num_canonical_nodes=1,
    )
    if options.start:
        state = {"epoch": 0, "sample_in_epoch": options.start, "num_canonical_nodes": 1}
        dataset.load_state_dict({**state, "shuffle_seed": 9176, "initial_physical_nodes": 1})
    opened = time.time()
    first, num_samples, num_bytes = 0.0, 0, 0
    for batch in DataLoader(dataset, BATCH_SIZE, num_workers=options.workers, collate_fn=list):
        first = first or time.time()
        num_samples += len(batch)
        num_bytes += sum(len(each["image"]) for each in batch)
        if options.first_only:
            break
    print_turn(options.began, opened, first, time.time(), num_samples, num_bytes)


if __name__ == "__main__":
    main()
