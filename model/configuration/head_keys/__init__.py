"""Interface of keys that extensions add to heads with one answer for a row, one per file.

`extensions/NAME/keys/head/halves.py` holds `HalvesConfig`, the class of the key `halves`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class HeadKey:
    """A key by which a head reads the states of all layers, with parameters of its own."""

    modules: tuple[str, ...] = ()
    """Modules that it adds to a head, which exports leave out."""
    lacking: str = ""
    """What an export then lacks, where {} is the head: the off-ramps of {}."""
    frozen: tuple[str, ...] = ()
    """Parameters that do not train, as the key `freeze` names them."""

    def check(self, options: Any) -> None:
        """Check the other keys of the head.

        Raises:
            ValueError: they do not fit; the message names the key.
        """

    def check_run(self, head: str, run: Any) -> None:
        """Check the configuration of a training, whose key `head` names the head.

        Raises:
            ConfigurationError: it does not fit.
        """

    def extend(self, head: Any, family: Any, copy: Callable[[], Any]) -> None:
        """Add modules to a new head of a family; `copy` returns a further one.

        Raises:
            ConfigurationError: the family does not fit.
        """
        raise NotImplementedError

    def loss(self, head: Any, states: Sequence[Any], tensors: Mapping[str, Any]) -> Any:
        """Return the `Loss` from the states [B, T, dim] of each layer, after the final norm."""
        raise NotImplementedError

    def figures(self, layers: int) -> Sequence[str]:
        """Return the names of further metrics, of which lower is better."""
        return ()
