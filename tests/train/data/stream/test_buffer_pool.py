from __future__ import annotations

import numpy as np
import torch

from clozeline.train.data.stream.buffer_pool import BufferPool


def test_a_buffer_in_use_is_never_given_again() -> None:
    pool = BufferPool(2)
    first = pool.take((2, 3), np.int64)
    place = first.ctypes.data
    tensor = torch.from_numpy(first[1:])
    del first
    assert pool.take((2, 3), np.int64).ctypes.data != place
    tensor.fill_(7)
    del tensor
    assert place in {pool.take((2, 3), np.int64).ctypes.data for _ in range(2)}
