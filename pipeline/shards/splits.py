"""Training and held-out splits: the predicate and the shard counts that all stages share."""

from dataclasses import dataclass

from clozeline.seeding import fraction as keyed_fraction
from clozeline.seeding import order_key


def is_heldout(uid: bytes, fraction: float, seed: int) -> bool:
    """Return whether a document is kept out of training.

    It depends on the document's uid (16 bytes) and the seed alone, so it never changes with tasks, order or other
    documents; a document held out at one fraction is held out at every larger one.
    """
    return keyed_fraction(uid, "heldout", seed) < fraction


def shard_of(uid: bytes, shards: int, seed: int) -> int:
    """Return the shard of a document in a token set, or in one split of a sample set, with so many shards."""
    return (order_key(uid, "order", seed) * shards) >> 64


def split_amount(split: str, what: str) -> str:
    """Return the name of an amount of a split in the accounting between stages: `heldout tokens`."""
    return f"{split} {what.replace('_', ' ')}"


@dataclass(frozen=True)
class Splits:
    """Training and held-out shards: unit u below `shards` is training shard u, the others are held-out ones."""

    shards: int
    fraction: float

    @property
    def heldout(self) -> int:
        """Number of held-out shards, 0 where nothing is held out."""
        return max(1, round(self.shards * self.fraction)) if self.fraction > 0 else 0

    def of_unit(self, unit: int) -> tuple[str, int, int]:
        """Return split, shard and number of shards of a unit."""
        if unit < self.shards:
            return "train", unit, self.shards
        return "heldout", unit - self.shards, self.heldout

    def items(self) -> list[tuple[str, int]]:
        """Return the splits that exist, with their number of shards."""
        return [("train", self.shards)] + ([("heldout", self.heldout)] if self.heldout else [])
