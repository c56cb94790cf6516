"""The digest of a teacher's weights, and the layers that each loss compares with the teacher's."""

from clozeline.train.checkpoint.keys import StateKey


class DistillationKey(StateKey):
    """Digest of a teacher's weights, and the layers of the student and the teacher by loss."""
