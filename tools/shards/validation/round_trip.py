"""Restore every example to its original and compare it with its sample."""

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.rows import RowBatch, Sample
from clozeline.pipeline.shards import ShardSet, base_columns, feature_columns
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.validation.located_rows import LocatedRows


def check_origin(examples: ShardSet, samples: ShardSet) -> None:
    """Check that an example set was made from a sample set.

    Each of its samples must be an example, or counted as skipped.
    """
    manifest = examples.manifest
    if manifest.kind != "examples":
        raise ConfigurationError(
            f"{examples.path}: expected an example set, got a set of {manifest.kind}"
        )

    if samples.manifest.kind != "samples":
        raise ConfigurationError(
            f"against={samples.path}: expected a sample set, got one of {samples.manifest.kind}"
        )

    parents = {
        parent.digest: parent.name for parent in manifest.parents if parent.role == "samples"
    }
    if parents and samples.digest not in parents:
        raise ConfigurationError(
            f"against={samples.path}: the examples come from the sample set "
            f"{', '.join(parents.values())} with digest {next(iter(parents))[:16]}…, this one has "
            f"{samples.digest[:16]}…"
        )

    expected = len(samples) * manifest.variants
    counted = manifest.totals.samples + sum(manifest.totals.skipped.values())
    if counted != expected:
        raise IntegrityError(
            f"{examples.path}: {len(samples)} samples x {manifest.variants} variants = {expected}, "
            f"but examples + skipped = {counted}"
        )


class RoundTrip:
    """Check example blocks against their sample set, keeping one sample shard in memory.

    See `check_origin`.
    """

    def __init__(self, examples: ShardSet, samples: ShardSet, vocabulary: Vocabulary) -> None:
        objective = examples.manifest.objective

        assert objective is not None  # every example set names its objective

        self.objective = build_objective(objective.entry(), vocabulary, objective.label)
        self.samples = samples
        self.restored = 0
        self._shards = len(samples.manifest.shards)
        self._shard = -1
        self._rows: RowBatch | None = None

        expected = [
            *base_columns(),
            *feature_columns(self.objective.features, self.objective.vocabulary.size),
        ]
        declared, mine = (
            [f"{spec.name} {spec.arrow_type} {spec.role or ''}".strip() for spec in columns]
            for columns in (expected, examples.columns)
        )
        if mine != declared:
            raise IntegrityError(f"{examples.path}: expected the columns {declared}, got {mine}")

    def __call__(self, block: LocatedRows, shard: int) -> None:
        """Restore every example of a block of a shard."""
        samples = self._load_sample_shard(shard % self._shards)
        # row in the sample shard of each example's sample
        identities = _identities(block.rows)
        sources = np.minimum(np.searchsorted(self._names, identities), len(samples) - 1)
        absent = self._names[sources] != identities
        if absent.any():
            raise block.error(
                int(np.argmax(absent)), f"no such sample in {self.samples.shard_path(self._shard)}"
            )

        for row, source in enumerate(sources.tolist()):
            self._restore_row(block, row, samples.row(source))

        self.restored += len(block.rows)

    def _restore_row(self, block: LocatedRows, row: int, sample: Sample) -> None:
        example = block.rows.row(row)

        try:
            original = self.objective.restore(example)
            expected = self.objective.original(sample, example)
        except ValueError as error:
            raise block.error(row, f"cannot be restored: {error}") from error

        if len(expected) != len(original):
            raise block.error(
                row, f"restores to {len(original)} tokens, the sample has {len(expected)}"
            )

        if (differs := expected != original).any():
            token = int(np.argmax(differs))
            message = (
                f"restores token {token} as id {original[token]}, the sample has {expected[token]}"
            )
            raise block.error(row, message)

    def _load_sample_shard(self, shard: int) -> RowBatch:
        if shard != self._shard or self._rows is None:
            # load the shard, sorted by identity for binary search
            blocks = np.flatnonzero(self.samples.index.shard == shard).tolist()
            rows = RowBatch.concatenate([self.samples.read_block(block) for block in blocks])
            order = np.argsort(_identities(rows), kind="stable")
            self._shard = shard
            self._rows = rows.take(order)
            self._names = _identities(self._rows)
        return self._rows


def _identities(rows: RowBatch) -> NDArray[np.bytes_]:
    """Return a sortable byte key per sample."""
    fixed = rows.fixed
    parts = [
        fixed["uid"].astype(">u8")[:, None].view(np.uint8),
        fixed["document_uid"],
        fixed["document_offset"].astype(">u4")[:, None].view(np.uint8),
        fixed["copy"][:, None],
        np.ones((len(rows), 1), np.uint8),  # numpy strips zero bytes at the end
    ]
    joined = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return joined.view(f"S{joined.shape[1]}")[:, 0]
