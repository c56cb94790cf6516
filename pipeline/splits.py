"""Which documents are held out: one predicate, shared by every stage that must agree on it."""

from __future__ import annotations

from pipeline.seeding import fraction as keyed_fraction

__all__ = ["is_heldout"]


def is_heldout(uid: bytes, fraction: float, seed: int) -> bool:
    """Whether a document is kept out of training.

    It depends on the document's uid and the seed alone, so it never changes with tasks, order or other documents; a
    document held out at one fraction is held out at every larger one.

    Args:
        uid: the document's 16 bytes.
        fraction: share of documents to hold out, 0 (none) to 1.
        seed: the recipe's seed.
    """
    return keyed_fraction(uid, "heldout", seed) < fraction
