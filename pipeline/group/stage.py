"""Cut token documents into samples for training and held-out sets."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from clozeline.errors import ConfigurationError, TokenizerMissingError
from clozeline.pipeline.execution.equations import EACH, Equation, Row
from clozeline.pipeline.execution.stages import Consumed, Pass, Stage, Versioned, amount, tokenizer_stage
from clozeline.pipeline.execution.unit_record import add_counts, require_equal
from clozeline.pipeline.group.config import GroupConfig
from clozeline.pipeline.group.passes import (
    GroupCounts,
    GroupManifests,
    GroupShards,
    SampleSet,
    SetCounts,
    sample_sets,
)
from clozeline.pipeline.registries import GROUPINGS
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import Splits, split_amount
from clozeline.pipeline.tokenize.tokenizers import vocabulary_of
from clozeline.seeding import hash64

_SETS: Final = ("sets", EACH, EACH)
"""Names above the counts of a set: its label and split."""
_TOKENS: Final = Equation(["tokens_in"], ["tokens_in_samples", "tokens_dropped"], unit="token", within=_SETS)
"""Each token is in a row of each set, or dropped for a reason."""
_LANGUAGES: Final = Equation(["by_language", "target_tokens"], ["tokens_in_samples", "separators"], within=_SETS)


class GroupStage(Stage[GroupConfig, GroupCounts]):
    """Group token shard k into sample shard k of every set, and held-out documents into separate shards."""

    name: ClassVar[str] = "group"
    equations: ClassVar[tuple[Equation, ...]] = (
        _TOKENS,
        _LANGUAGES,
    )
    needs: ClassVar[tuple[str, ...]] = ("encode",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    @property
    def _tokens(self) -> Path:
        return self.recipe.folder("encode")

    @property
    def _entries(self) -> Sequence[Any]:
        """The recipe's objectives."""
        if not self.recipe.has("corrupt"):
            raise ConfigurationError(
                "group: the sample sets follow from the recipe's objectives, but it has no `corrupt` key: add it"
            )
        entries: Sequence[Any] = self.recipe.config_of("corrupt")
        return entries

    @cached_property
    def sets(self) -> tuple[SampleSet, ...]:
        """The sample sets, by label."""
        manifest = Manifest.load(self._tokens)
        vocabulary = vocabulary_of(self._tokens / "manifest.json", manifest.tokenizer.fingerprint)
        return sample_sets(self._entries, vocabulary)

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong with objectives, as far as the vocabulary is known."""
        vocabulary = tokenizer_stage(self.recipe).foreseen_tokenizer().vocabulary
        for number, entry in enumerate(self._entries):
            try:
                entry.build(vocabulary)
            except TokenizerMissingError:
                continue  # the length of its templates is known after the tokenizer is trained
            except ConfigurationError as error:
                yield f"corrupt.{number}: {error}"

    def algorithms(self) -> Sequence[type[Versioned]]:
        """Return the classes of the groupings of its sets."""
        return [GROUPINGS.load_class(made.spec.name) for made in self.sets]

    def version(self) -> int:
        """Return a hash of the groupings' versions and of the sets, which follow from the objectives."""
        facts = []
        for made, grouping in zip(self.sets, self.algorithms(), strict=True):
            facts.append((made.label, made.minimum.tokens, made.minimum.sentences, grouping.VERSION))
        return hash64(repr(facts))

    def passes(self) -> Sequence[Pass[GroupCounts]]:
        splits = Splits(len(Manifest.load(self._tokens).shards), self.recipe.heldout.fraction)
        balance = self.recipe.folder("balance") if self.recipe.has("balance") else None
        shards = GroupShards(
            splits.shards + splits.heldout, self._tokens, self.sets, splits, self.config.block_rows,
            self.config.compression, self.recipe.seed, balance,
        )  # fmt: skip
        return [shards, GroupManifests(shards)]

    def row(self, counts: GroupCounts) -> Row:
        """Show documents, and for each set its input tokens, its samples and their tokens."""
        total = sum(counts["documents"].values())
        without = {"without a copy in training": counts["copies"]["left_out"] if "copies" in counts else 0}
        sets = tuple((label, _set_row(splits)) for label, splits in counts["sets"].items())
        left_out = (("document", without),)
        return Row(amount(total, "document"), amount(len(sets), "set"), left_out, sets, totals={"document": total})

    def ruling_key(self, reason: str) -> str:
        return "balance"

    def consumes(self, counts: GroupCounts) -> Sequence[Consumed]:
        return [
            Consumed(split_amount(split, what), amount)
            for split, read in counts.get("read", {}).items()
            for what, amount in cast(Mapping[str, int], read).items()
        ]

    def provides(self, counts: GroupCounts) -> Mapping[str, int]:
        return {
            f"{what} of {label}/{split}": amount
            for label, splits in counts.get("sets", {}).items()
            for split, part in splits.items()
            for what, amount in (("samples", part["samples"]), ("tokens", sum(part["by_language"].values())))
        }

    def check(self, counts: GroupCounts, *, complete: bool = True) -> None:
        """Check also that each set takes all tokens that were read, or those of all copies."""
        super().check(counts, complete=complete)
        sets = [(label, *item) for label, splits in counts.get("sets", {}).items() for item in splits.items()]
        for label, split, set_counts in sets:
            where = f"group {label}/{split}"
            tokens_in = set_counts["tokens_in"]
            # only sets of pairs read both sides
            pairs = "target_tokens" in set_counts
            if "read" in counts:
                copied = split == "train" and "copies" in counts
                documents = counts["copies"] if copied else counts["read"][split]
                total = documents["tokens"] + pairs * documents["target_tokens"]
                require_equal(where, "tokens_in", tokens_in, f"tokens of the {'copies' if copied else 'documents'}",
                              total)  # fmt: skip


def _set_row(splits: Mapping[str, SetCounts]) -> Row:
    total: SetCounts = {}
    for set_counts in splits.values():
        add_counts(total, set_counts)
    out = f"{amount(total['samples'], 'sample')}\n{total['tokens']:,} tokens"
    return Row.of(total, [_TOKENS], amount(total["tokens_in"], "token"), out)
