"""mosaicml-streaming: MDS shards of 16-bit arrays, with its own defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.workload import BATCH, LENGTH, are_full, stacked


class Mosaic:
    """StreamingDataset under StreamingDataLoader, with the state of the latter."""

    has_workers = True

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        from streaming import StreamingDataLoader, StreamingDataset

        data = StreamingDataset(local=str(folder / "mds"), shuffle=True, shuffle_seed=1, batch_size=BATCH)
        options: Any = {"num_workers": workers, "collate_fn": stacked("ids")}
        self.loader = StreamingDataLoader(data, batch_size=BATCH, **options)
        if state is not None:
            self.loader.load_state_dict(state)

    @staticmethod
    def load() -> None:
        """Import streaming, and before it what it imports for images but tokens never touch."""
        import transformers  # looks for torchvision itself, and must not find the stand-in

        transformers.BatchFeature, transformers.BatchEncoding  # noqa: B018
        try:
            import torchvision  # noqa: F401
        except (ImportError, RuntimeError):  # absent, or built for another torch
            _stand_in_for_torchvision()
        import streaming  # noqa: F401

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once."""
        from streaming import MDSWriter

        full = are_full(lengths)
        with MDSWriter(out=str(folder / "mds"), columns={"ids": "ndarray:uint16" + full * f":{LENGTH}"}) as out:
            for row, length in zip(ids, lengths, strict=True):
                out.write({"ids": row if full else row[:length]})

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from self.loader

    def state(self) -> Any:
        """Return the state of the loader."""
        return self.loader.state_dict()


def _stand_in_for_torchvision() -> None:
    """Return empty modules with the two names that streaming's image data sets import."""
    contents: dict[str, dict[str, Any]] = {
        "torchvision": {},
        "torchvision.datasets": {"VisionDataset": object},
        "torchvision.transforms": {},
        "torchvision.transforms.functional": {"to_tensor": None},
    }
    for name, names in contents.items():
        module = ModuleType(name, "Stands in for a package that is not installed.")
        module.__dict__.update(names)
        sys.modules[name] = module
