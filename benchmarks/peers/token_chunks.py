"""LitData: chunks of ids, cut into samples by its loader for tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.workload import BATCH, LENGTH


class LitData:
    """StreamingDataset under StreamingDataLoader, with the state of the latter."""

    has_workers = True

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        import litdata

        loader = litdata.TokensLoader(block_size=LENGTH)
        data = litdata.StreamingDataset(str(folder / "lit"), item_loader=loader, shuffle=True, drop_last=False)
        self.loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)
        if state is not None:
            self.loader.load_state_dict(state)

    @staticmethod
    def load() -> None:
        """Import litdata."""
        import litdata  # noqa: F401

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once, padded."""
        import litdata

        litdata.optimize(
            fn=_Tokens(str(ids.filename)),
            inputs=list(range(0, len(ids), 1000)),
            output_dir=str(folder / "lit"),
            chunk_size=LENGTH * 1920 * 8,
            num_workers=1,
            item_loader=litdata.TokensLoader(),
        )

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.loader:
            yield batch.to(torch.int64)

    def state(self) -> Any:
        """Return the state of the loader."""
        return self.loader.state_dict()


class _Tokens:
    """Gives litdata the tokens of a thousand samples at a time, in a process of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, start: int) -> Iterator[torch.Tensor]:
        ids = np.load(self.path, mmap_mode="r")
        yield torch.from_numpy(ids[start : start + 1000].reshape(-1).copy())
