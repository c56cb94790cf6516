"""Interface of keys that extensions add to the scoring of labeled rows, one per file.

`extensions/NAME/keys/scoring/halves.py` holds `HalvesConfig`, the class of the key `halves`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from clozeline.model.build import Model


class Computed(ABC):
    """A model that computes the scores of a head in its own way, and counts what that takes."""

    counts: Sequence[float]
    """sums over the rows of this rank"""

    @abstractmethod
    def __call__(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of a batch."""

    @abstractmethod
    def usage(self, counts: Sequence[Sequence[float]]) -> dict[str, float]:
        """Return what the rows took, from the `counts` of all ranks."""


class ScoringKey(ABC):
    """How a fine-tuned model computes its scores; as text, it is what the scores say of it."""

    @abstractmethod
    def wrap(self, model: Model, head: str) -> Computed:
        """Return the model whose head is scored.

        Raises:
            ConfigurationError: the model was not trained for it.
        """

    @staticmethod
    @abstractmethod
    def describe(used: Mapping[str, Any]) -> str:
        """Return the `usage` of a model, and the key as text under `rule`, in one line."""
