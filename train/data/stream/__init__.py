"""Stream shards as micro-batches: endless, shuffled, exact to the sample, equal on any world size.

A *lane* is one of the equal streams that make up a global batch (MosaicML's canonical nodes); each
rank reads some of them. All lanes advance together, so the *lane row*, the index of a row within
its lane, is the entire state:

    lane row    0    1    2    3    4    5    6    7    8 ...
    lane 0    | block 7           | block 2           | ...
    lane 1    | block 0           | block 5           | ...
    lane 2    | block 4           | block 9           | ...     a *cell*: one row of one lane
    lane 3    | block 1           | block 6           | ...
              |===== round =====  |===== round =====  | ...     *round*: each lane reads a block
                        |--- batch ---|             a global batch: 3 lane rows x 4 lanes
                        |segment  |sgm|             *segment*: part of a batch in one round
              |===== span ======================== ...     *span*: lane rows of one phase

The last round of an epoch deals single rows instead of blocks. In a mixture each set has its own
rounds, and a cell takes the next row of the set that its lane draws there.

From files to tensors: `order.py` (which row is in which cell), `rounds.py` (read and join the
blocks of a round), `batches.py` (gather the rows of a batch, ahead of the training), `collate.py`
(tensors). `stream.py` is the entry.
"""
