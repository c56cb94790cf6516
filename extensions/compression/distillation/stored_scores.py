"""Read the description of stored teacher scores, and check that a run can learn from them."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from clozeline.columns import TEACHER
from clozeline.configuration.config import Positive, config_class, to_data, validate
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.registries import LossComponent
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards

COLUMNS: Final = tuple(field.name for field in TEACHER)
TEACHER_KEY: Final = "teacher"
"""Key of the manifest's `config`."""


@config_class
class StoredScores:
    """The teacher of a column set, and how its scores were computed and stored."""

    source: str
    """name of the teacher's folder"""
    digest: str
    """xxh3-128 (hex) of the teacher's weights"""
    head: str
    """head that computed the scores"""
    k: Positive
    """entries per label"""
    how: Literal["top", "drawn"]
    """top: the k most likely classes; drawn: classes drawn k times, with count / k"""
    temperature: Annotated[float, Field(gt=0.0)]
    """divisor of the logits"""
    seed: int
    """seed of the draws"""
    batch: Positive
    """rows of a forward pass"""

    def __str__(self) -> str:
        return (
            f"stored scores of {self.source} (digest {self.digest}), head {self.head}: {self.how}, "
            f"k {self.k}, temperature {self.temperature:g}"
        )

    def to_config(self) -> dict[str, object]:
        """Return the `config` of a manifest."""
        return {TEACHER_KEY: to_data(self)}


def read_stored_scores(shards: ShardSet) -> StoredScores | None:
    """Return the teacher of a column set or of joined shards; None if they have no scores."""
    parts = shards.column_sets if isinstance(shards, JoinedShards) else (shards,)
    for part in parts:
        if part.manifest.kind == "columns" and TEACHER_KEY in part.manifest.config:
            stored: StoredScores = validate(
                StoredScores,
                part.manifest.config[TEACHER_KEY],
                f"{part.path}: config.{TEACHER_KEY}",
            )
            return stored
    return None


def refuse_unfit_scores(
    losses: Sequence[LossComponent], model: ModelConfig, sets: Sequence[ShardSet]
) -> None:
    """Check that losses fit the stored scores of the sets of a run, which has no other teacher.

    Raises:
        ConfigurationError: a loss contradicts them, or two sets have different teachers.
    """
    opened = [
        (shards, stored) for shards in sets if (stored := read_stored_scores(shards)) is not None
    ]
    # the loss must read what was stored
    for shards, stored in opened:
        where = f"data.shards.columns: {shards.path}"
        first = opened[0][1]

        if (stored.digest, stored.head, stored.k) != (first.digest, first.head, first.k):
            raise ConfigurationError(
                f"{where} has the {stored}, another set of this run has the {first}: teach both "
                "with one teacher and k"
            )

        if stored.head not in model.heads:
            raise ConfigurationError(
                f"{where}: scores of the teacher's head {stored.head}, the student has "
                f"{', '.join(model.heads)}"
            )

        for loss in losses:
            options = loss.options
            for name, ours in (
                ("temperature", options.temperature),
                ("how", options.how),
                ("head", options.head),
            ):
                if ours is not None and ours != (theirs := getattr(stored, name)):
                    raise ConfigurationError(
                        f"distil.losses.{loss.name}.{name}: {where} was computed with {theirs}, "
                        f"got {ours}: set it to {theirs}, or teach again with {name}={ours}"
                    )
