"""Connected components of a graph: edges come in any order, and are not kept."""

import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import UInt64
from clozeline.native import union_find

MAPPED_BYTES: Final = 1 << 30
"""Bytes of parents from which they are in a file, which the system may write out of memory."""

MOST_SHORT: Final = 2**32 - 1
"""Greatest number that has 4 bytes."""


class Components:
    """Components of nodes numbered from 1, by union-find: 4 bytes a node, 8 from 2**32 nodes on.

    Memory of a node without an edge is touched only if others share its page.

    Args:
        nodes: the greatest node.
        folder: where a temporary file of many nodes is made; by default that of the system.
    """

    def __init__(self, nodes: int, folder: Path | None = None) -> None:
        dtype = np.dtype(np.uint32 if nodes <= MOST_SHORT else np.uint64)
        size = (nodes + 1) * dtype.itemsize
        if size < MAPPED_BYTES:
            self._parents: NDArray[Any] = np.zeros(nodes + 1, dtype)
        else:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.truncate(size)
                self._parents = np.memmap(file, dtype, "r+", shape=(nodes + 1,))

    def join(self, left: UInt64, right: UInt64) -> None:
        """Add edges from left[i] to right[i].

        Raises:
            ValueError: a node is 0 or above the greatest one.
        """
        parents = self._parents
        if union_find.join(parents, left, right):
            return
        for ends in (left, right):
            new = ends[parents[ends] == 0]
            parents[new] = new
        while len(left):
            self._flatten()
            left = parents[left]
            right = parents[right]
            apart = left != right
            left = left[apart]
            right = right[apart]
            np.minimum.at(parents, np.maximum(left, right), np.minimum(left, right))

    def roots(self) -> NDArray[Any]:
        """Return the smallest node of each node's component, 0 for a node without an edge.

        Shape [nodes], in the order of the nodes.
        """
        self._flatten()
        return self._parents[1:]

    def _flatten(self) -> None:
        parents = self._parents
        if union_find.flatten(parents):
            return
        while not np.array_equal(jumped := parents[parents], parents):
            parents[:] = jumped
