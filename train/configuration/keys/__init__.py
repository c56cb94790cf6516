"""Interface of configuration keys that extensions add to a training, one per file.

`extensions/NAME/keys/train/halves.py` holds `HalvesConfig`, the class of the key `halves`. Its
first docstring says what the key does.

What a key does to a training, its hooks do: they wrap the model, change gradients, and keep states
in checkpoints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from clozeline.model.configuration.capabilities import Part
from clozeline.pipeline.shards import ShardSet
from clozeline.registry import Component, Registry
from clozeline.train.registries import HookComponent


class TrainingKey:
    """A key that an extension adds to a training."""

    settings: ClassVar[Sequence[Part]] = ()
    """Values of the key that other parts need or cannot have; `is_set` asks the value."""
    choices: ClassVar[Mapping[str, Registry[Any]]] = MappingProxyType({})
    """Registries of the algorithms that it chooses, by the keys that name them."""
    columns: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Columns of training sets that only this key reads, and what must be set for it."""

    @property
    def chosen(self) -> Iterator[tuple[str, Component[Any]]]:
        """Each algorithm that it chooses, with the key that names it."""
        yield from ()

    @property
    def reads(self) -> Collection[str]:
        """Those of `columns` that this value reads."""
        return self.columns.keys()

    def hooks(self) -> Sequence[HookComponent]:
        """Return the hooks that it adds, which run before those of the key `hooks`."""
        return ()

    def check(self, run: Any) -> None:
        """Check the numbers of the configuration of a training.

        Raises:
            ValueError: the key does not fit; the message names it.
        """

    def check_rows(self, where: str, tensors: Collection[str]) -> None:
        """Check the tensors of the batches of a set, which `where` names in messages.

        Raises:
            ConfigurationError: the key cannot train on them.
        """

    def check_sets(self, run: Any, sets: Sequence[ShardSet]) -> None:
        """Check the training sets.

        Raises:
            ConfigurationError: they do not fit the key, or each other.
        """
