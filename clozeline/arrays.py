"""Shared types of numpy arrays."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bool: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]
UInt8: TypeAlias = NDArray[np.uint8]
UInt64: TypeAlias = NDArray[np.uint64]
