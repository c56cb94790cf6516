"""The stage `train_tokenizer`: train a tokenizer on a sample of the documents."""

import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from pathlib import Path

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.execution.equations import Equation, StageRow
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import ExpectedTokenizer, Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Output
from clozeline.pipeline.registries import TokenizerComponent
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import expected_vocabulary
from clozeline.pipeline.tokenize.train.config import TrainTokenizerConfig
from clozeline.pipeline.tokenize.train.sample import (
    MeasureText,
    SampleText,
    SetShares,
    TrainTokenizerCounts,
    name_ranges,
    read_sample,
)

_LOG = logging.getLogger(__name__)


class TrainTokenizerStage(Stage[TrainTokenizerConfig, TrainTokenizerCounts]):
    """Train a tokenizer on documents that are not held out."""

    name = "train_tokenizer"
    after = ("dedup",)
    in_heldout = True
    cpu_seconds_per_mb = 0.36
    needs = ("clean",)
    writes_tokenizer = True
    equations = (Equation(["documents_in"], [("sample", "documents"), "skipped"]),)

    def expected_tokenizer(self) -> ExpectedTokenizer:
        """Return a placeholder vocabulary with the size and special ids of the trained one."""
        chosen = self.config.algorithm()
        vocabulary = expected_vocabulary(chosen.options.size, chosen.options.special_pieces())
        return ExpectedTokenizer(vocabulary, int(chosen.type.VERSION))

    def passes(self) -> Sequence[Pass[TrainTokenizerCounts]]:
        chosen = self.config.algorithm()
        budget = self.config.sample_bytes or chosen.type.SAMPLE_BYTES
        parts = self.plan.names
        texts = Shuffle("sample", parts, name_ranges(budget), "sample")
        drawn = (self.recipe.heldout.fraction, self.recipe.seed)
        return [
            Pass("measure", {part: MeasureText(part, *drawn) for part in parts}),
            Pass("shares", {"000000": SetShares(budget, self.config.alpha)}),
            Pass("sample", {part: SampleText(part, *drawn, texts) for part in parts}),
            *texts.passes(self.name),
            Pass("main", {"000000": TrainTokenizer(chosen, texts)}),
        ]

    def count_read_documents(self, counts: TrainTokenizerCounts) -> Sequence[int]:
        return [counts["measured"], counts["documents_in"]]

    def row(self, counts: TrainTokenizerCounts) -> StageRow:
        """Show the documents, the documents that were read, and why others were not."""
        documents = plural(counts["sample"]["documents"], "document")
        learned = f"{documents}\n{counts['vocabulary']['size']:,} ids"
        held_out = counts["skipped"]["held_out"]
        unread = counts["skipped"]["over_budget"]
        notes = [
            f"{plural(held_out, 'document')} kept for testing: the vocabulary does not know them"
        ] * bool(held_out)
        notes += [
            f"{plural(unread, 'document')} not read: the sample is large enough (train_tokenizer)"
        ] * bool(unread)
        return StageRow(plural(counts["documents_in"], "document"), learned, notes=tuple(notes))


@plain_dataclass(frozen=True)
class TrainTokenizer(Unit[TrainTokenizerCounts]):
    """Train the tokenizer on the sample and publish it."""

    chosen: TokenizerComponent
    texts: Shuffle

    def run(self, inputs: UnitInputs, output: Output) -> TrainTokenizerCounts:
        """Publish the model file, `vocabulary.json` and `name` in `tokenizer/`.

        Raises:
            ConfigurationError: there is no text to train on, or `size` is too small for the special
                pieces.
        """
        counts = inputs.sum_counts("train_tokenizer", "sample")
        read = counts["sample"]["bytes"]
        if not read:
            raise ConfigurationError(
                f"there is no text to train a tokenizer on: of {counts['documents_in']} documents "
                f"{counts['skipped']['held_out']} are held out; the report of the stage before "
                "says why others were dropped"
            )

        # train in a scratch folder, then publish the files
        scratch = output.folder / TEMPORARY  # the sample is there
        with tempfile.TemporaryDirectory(prefix="tokenizer-", dir=scratch) as temporary:
            folder = Path(temporary)
            texts = read_sample(inputs, self.texts, read)
            tokenizer = self.chosen.type.train(texts, self.chosen.options, folder)
            save_tokenizer(tokenizer, self.chosen.name, folder)
            for source in sorted(folder.iterdir()):
                with output.file(f"tokenizer/{source.name}") as path:
                    shutil.copyfile(source, path)

        # warn about text that decoding changes, and about a small vocabulary
        if tokenizer.loss:
            _LOG.warning(
                "train_tokenizer: text decoded from %s can differ from the original: %s",
                self.chosen.name,
                tokenizer.loss,
            )

        asked = self.chosen.options.size
        size = tokenizer.vocabulary.size
        if size < asked:
            _LOG.warning(
                "train_tokenizer: the text is too short for %s tokens (%s bytes); the vocabulary "
                "has %s",
                f"{asked:,}",
                f"{read:,}",
                f"{size:,}",
            )

        return {"vocabulary": {"asked": asked, "size": size}}
