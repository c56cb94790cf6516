"""The stage `train_tokenizer`: train a tokenizer on a sample of the documents."""

import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.execution.equations import Equation, StageRow
from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.stages import ExpectedTokenizer, Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output
from clozeline.pipeline.registries import TokenizerComponent
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import expected_vocabulary
from clozeline.pipeline.tokenize.train.config import TrainTokenizerConfig
from clozeline.pipeline.tokenize.train.sample import SAMPLE_VERSION, choose_sample

_LOG = logging.getLogger(__name__)


class TrainTokenizerCounts(Counts, total=False):
    """Counts of the unit."""

    skipped: dict[str, int]
    """documents outside the sample, by reason"""
    sample: dict[str, Any]
    """training text: `documents`, `bytes`, and `languages` with the bytes of each language"""
    vocabulary: dict[str, int]
    """number of ids: `asked` in the configuration, and `size` of the trained vocabulary"""


class TrainTokenizerStage(Stage[TrainTokenizerConfig, TrainTokenizerCounts]):
    """Train a tokenizer on documents that are not held out."""

    name = "train_tokenizer"
    after = ("dedup",)
    in_heldout = True
    cpu_seconds_per_mb = 0.62
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
        unit = TrainTokenizer(
            chosen,
            self.config.sample_bytes or chosen.type.SAMPLE_BYTES,
            self.plan.names,
            self.recipe.heldout.fraction,
            self.recipe.seed,
            self.config.alpha,
        )
        return [Pass("main", {"000000": unit})]

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
    """Draw the sample, train the tokenizer and publish it."""

    VERSION = SAMPLE_VERSION
    chosen: TokenizerComponent
    budget: int
    parts: Sequence[str]
    """names of the parts of the documents"""
    heldout: float
    seed: int
    alpha: float = 1.0

    def run(self, inputs: UnitInputs, output: Output) -> TrainTokenizerCounts:
        """Publish the model file, `vocabulary.json` and `name` in `tokenizer/`.

        Raises:
            ConfigurationError: there is no text to train on, or `size` is too small for the special
                pieces.
        """
        parts = [open_documents(inputs, part) for part in self.parts]
        scratch = output.folder / TEMPORARY
        scratch.mkdir(parents=True, exist_ok=True)

        with tempfile.TemporaryDirectory(prefix="sample-", dir=scratch) as temporary:
            folder = Path(temporary)
            sample = choose_sample(parts, self.budget, self.heldout, self.seed, folder, self.alpha)
            if sample.bytes == 0:
                raise ConfigurationError(
                    "there is no text to train a tokenizer on: of "
                    f"{sample.held_out + sample.over_budget} documents {sample.held_out} are held "
                    "out; the report of the stage before says why others were dropped"
                )

            # train in the scratch folder, then publish the files
            tokenizer = self.chosen.type.train(
                sample.texts(), self.chosen.options, folder / "tokenizer"
            )
            save_tokenizer(tokenizer, self.chosen.name, folder / "tokenizer")
            for source in sorted((folder / "tokenizer").iterdir()):
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
                f"{sample.bytes:,}",
                f"{size:,}",
            )

        return {
            "documents_in": sample.documents + sample.held_out + sample.over_budget,
            "skipped": {"held_out": sample.held_out, "over_budget": sample.over_budget},
            "sample": {
                "documents": sample.documents,
                "bytes": sample.bytes,
                "languages": dict(sorted(sample.languages.items())),
            },
            "vocabulary": {"asked": asked, "size": size},
        }
