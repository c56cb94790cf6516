"""Interface of configuration keys that extensions add to a training, one per file.

`extensions/NAME/keys/train/halves.py` holds `HalvesConfig`, the class of the key `halves`. Its
first docstring says what the key does.
"""

from collections.abc import Sequence

from clozeline.configuration.config import config_class
from clozeline.train.registries import HookComponent


@config_class
class TrainingKey:
    """A key that an extension adds to a training."""

    def hooks(self) -> Sequence[HookComponent]:
        """Return hooks that it adds to those of the key `hooks`."""
        return ()
