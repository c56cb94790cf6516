"""Interface of keys that extensions add to the state of checkpoints, one per file.

`extensions/NAME/keys/state/halves.py` holds `HalvesKey`, for the key `halves`. A hook sets its
value by `in_state`, which JSON must be able to store.
"""

from typing import Any

from clozeline.model.build import Model


class StateKey:
    """A key of the state of checkpoints."""

    @staticmethod
    def restore(model: Model, value: Any) -> Model:
        """Return the model that a run with this value trained, from its weights alone."""
        return model
