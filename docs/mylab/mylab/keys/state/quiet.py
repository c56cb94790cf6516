"""The weight of the loss of quiet states, from which a resumed run continues."""

from clozeline.train.checkpoint.keys import StateKey


class QuietKey(StateKey):
    """Weight of the loss after the last step."""
