"""Every loader that ours is compared with, by the name it has in the tables."""

from __future__ import annotations

from benchmarks.peers.flat_binary import DatatroveFolder, Indexed, Memmap
from benchmarks.peers.hugging_face import DatasetsBatches, DatasetsMap, DatasetsStreaming
from benchmarks.peers.mds import Mosaic
from benchmarks.peers.sample_tar import WebDataset
from benchmarks.peers.token_chunks import LitData
from benchmarks.peers.workload import Loader

PEERS: dict[str, type[Loader]] = {
    "numpy memmap, whole batch": Memmap,
    "memmap + DataLoader": Indexed,
    "datatrove, files in sequence": DatatroveFolder,
    "litdata": LitData,
    "datasets, map-style": DatasetsMap,
    "datasets, streaming whole batches": DatasetsBatches,
    "datasets, streaming + DataLoader": DatasetsStreaming,
    "webdataset, per-sample tar": WebDataset,
    "mosaicml-streaming": Mosaic,
}
