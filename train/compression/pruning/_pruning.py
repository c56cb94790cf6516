"""Interface of pruning methods: hooks that remove parts of a model while it is trained."""

from abc import abstractmethod
from typing import ClassVar

from clozeline.model.build import Model
from clozeline.train.hooks import Hook


class Pruning(Hook):
    """A way to remove parts of a model while it is trained."""

    turn: ClassVar = 3
    claim: ClassVar[str]
    """Result that the paper reports, with its arXiv id; `clozeline compress --compare` prints it."""
    unread: ClassVar[frozenset[str]] = frozenset()
    """Tensors of a batch that this method does not work with."""

    @abstractmethod
    def describe(self, model: Model, horizon: int) -> str:
        """Return the line that a start prints.

        Raises:
            ConfigurationError: the model has nothing to prune, or the schedule of the pruning is beyond `horizon`.
        """
