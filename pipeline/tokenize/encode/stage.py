"""Split sentences and tokenize documents; the number of tasks changes no shard."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import psutil

from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError, plural
from clozeline.files import file_hash
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import (
    Pass,
    Stage,
    documents_folder,
    tokenizer_stage,
)
from clozeline.pipeline.execution.unit_record import total_counts
from clozeline.pipeline.ingest.formats.dictionaries import read_switcher
from clozeline.pipeline.recipe import ExecutorConfig
from clozeline.pipeline.registries import SEGMENTERS
from clozeline.pipeline.shards.layout import split_amount
from clozeline.pipeline.text.text_statistics import UNSPACED_LANGUAGES
from clozeline.pipeline.tokenize.encode.config import EncodeConfig
from clozeline.pipeline.tokenize.encode.merge_runs import AssignCodes, MergeRuns, TokenManifest
from clozeline.pipeline.tokenize.encode.tokenize_documents import EncodeCounts, TokenizeDocuments
from clozeline.pipeline.tokenize.unknown_text import UnknownShares
from clozeline.terminal import size_text

_VERSION: Final = 5
"""raised when the same documents give other shards"""
_BASE_BYTES: Final = 300e6
"""Memory of Python and its libraries."""
_PER_DOCUMENT_BYTE: Final = 15.0
"""Memory for each byte of documents in a shard, which is sorted: 117 MB of documents took 2.0
GB."""


def worker_memory(shards: int, documents: float) -> float:
    """Return about how many bytes of memory a worker needs for one of the shards of all documents."""
    return _BASE_BYTES + _PER_DOCUMENT_BYTE * documents / shards


def check_memory(executor: ExecutorConfig, shards: int, documents: float) -> str:
    """Return a warning if a worker may need more memory than it has, or ""."""
    options = executor.chosen().options
    remedy = "lower executor.workers"
    if executor.name == "local":
        available = psutil.virtual_memory().total / min(
            executor.workers or os.cpu_count() or 1, executor.tasks, shards
        )
    else:
        available = options.mem_per_cpu_gb * options.cpus_per_task * 2**30
        remedy = "raise executor.options.mem_per_cpu_gb"
    if (needed := worker_memory(shards, documents)) <= available:
        return ""
    return (
        f"memory: a worker of 'encode' needs about {size_text(needed)}, got {size_text(available)}: "
        f"{remedy}, or set "
        "plan.shard_bytes to less"
    )


class EncodeStage(Stage[EncodeConfig, EncodeCounts]):
    """Tokenizes each part into sorted runs, assigns codes, merges the runs shard by shard and writes the manifest."""

    name: ClassVar[str] = "encode"
    needs: ClassVar[tuple[str, ...]] = ("clean",)
    shared: ClassVar[tuple[str, ...]] = ("seed", "heldout")

    equations: ClassVar[tuple[Equation, ...]] = (
        Equation(["documents_in"], ["documents_out", "rejected"], unit="document"),
        # the text of all tokens is compared with the original
        Equation(["tokens", "target_tokens"], [("unknown_text", EACH, "tokens")]),
        Equation([("unknown_text", EACH, "unknown_characters")], ["unknown_reasons"]),
        # shards hold what was tokenized
        Equation(["tokens"], [("merged", "tokens")], of_stage=True),
        Equation(["target_tokens"], [("merged", "target_tokens")], of_stage=True),
        Equation(["documents_out"], [("merged", "documents")], of_stage=True),
    )

    def version(self) -> int:
        tokenizer = tokenizer_stage(self.recipe).expected_tokenizer().version
        segmenters = sum(int(chosen.type.VERSION) for chosen in self.config.words.values())
        return _VERSION + int(self.config.sentences.type.VERSION) + tokenizer + segmenters

    def validate(self) -> Iterator[str]:
        """Check that the recipe has a tokenizer, and that the packages of segmenters are there."""
        tokenizer_stage(self.recipe)
        for chosen in self.config.words.values():
            try:
                chosen.build()
            except ConfigurationError as error:
                yield str(error)
        if self.config.code_switch is not None:
            read_switcher(self.config.code_switch, self.recipe.limits, self.recipe.seed, self.name)
        yield from ()

    def files(self) -> Mapping[str, str]:
        """Return the hashes of the dictionaries."""
        switch = self.config.code_switch
        return (
            {} if switch is None else {str(path): file_hash(path) for path in switch.dictionaries}
        )

    def passes(self) -> Sequence[Pass[EncodeCounts]]:
        recipe = self.recipe
        units = len(self.plan.units)
        shards = self.plan.shards
        runs = Shuffle("runs", units, shards)
        documents = documents_folder(recipe, self.name)
        source = tokenizer_stage(recipe)
        tokenizer = source.folder / "tokenizer"
        id_bytes = np.dtype(source.expected_tokenizer().vocabulary.id_dtype).itemsize
        index = recipe.folder("decontaminate") if recipe.has("decontaminate") else None
        return [
            TokenizeDocuments(
                "tokenize",
                units,
                documents,
                tokenizer,
                self.config.sentences,
                runs,
                recipe.seed,
                self.config.code_switch,
                recipe.heldout.fraction,
                recipe.limits,
                self.config.words,
                tuple(self.config.extra),
            ),
            *runs.passes(),
            AssignCodes(
                "codes", 1, id_bytes, self.config.max_unknown, words=bool(self.config.words)
            ),
            MergeRuns(
                "merge",
                shards,
                runs,
                tokenizer,
                recipe.heldout.fraction,
                recipe.seed,
                tuple(self.config.extra),
            ),
            TokenManifest(
                "manifest",
                1,
                recipe.corpus,
                shards,
                tokenizer,
                recipe.seed,
                self._recorded_config,
                index,
                tuple(self.config.extra),
            ),
        ]

    @property
    def _recorded_config(self) -> Mapping[str, Any]:
        """The options that the manifest records; without segmenters or declared keys, nothing of them."""
        config: dict[str, Any] = to_data(self.config)
        return {
            key: value for key, value in config.items() if value or key not in ("words", "extra")
        }

    def warning(self) -> str:
        files = (documents_folder(self.recipe, self.name) / "documents").glob("*.arrow")
        size = sum(file.stat().st_size for file in files)
        lines = [check_memory(self.recipe.executor, self.plan.shards, size), self._explain_words()]
        return "\n".join(filter(None, lines))

    def _explain_words(self) -> str:
        """Return what a word is in languages without blanks that have no segmenter, where an objective takes words.

        Segmenters of which no document has the language are named too: they find nothing.
        """
        if not self.recipe.has("clean"):
            return ""
        found = total_counts(self.recipe.folder("clean"), "main").get("languages", {})
        if unused := sorted(self.config.words.keys() - found.keys()):
            return (
                f"words: encode.words names {', '.join(unused)}, but the documents have the "
                "languages "
                f"{', '.join(sorted(found))}: give them by clean.language, or by `language` of "
                "the input"
            )
        wanted = self._objectives_of_words()
        if not wanted:
            return ""
        segmenters = {
            language: name
            for name in SEGMENTERS.available()
            for language in SEGMENTERS.load_class(name).languages
        }
        unspaced = (
            UNSPACED_LANGUAGES | segmenters.keys()
        ) & found.keys() - self.config.words.keys()
        if not unspaced:
            return ""
        number = sum(found[language] for language in unspaced)
        line = (
            f"words: {plural(number, 'document')} of {sum(found.values()):,} "
            f"({', '.join(sorted(unspaced))}) have no "
            f"blanks between words, so each piece of the tokenizer is a word of {', '.join(wanted)}"
        )
        named = [
            f"{language}: {segmenters[language]}"
            for language in sorted(unspaced & segmenters.keys())
        ]
        remedy = (
            f"; encode.words: {{{', '.join(named)}}} finds words (pip install 'clozeline[words]')"
        )
        return line + remedy if named else line

    def _objectives_of_words(self) -> list[str]:
        """Return the labels of the recipe's objectives that read words."""
        vocabulary = tokenizer_stage(self.recipe).expected_tokenizer().vocabulary
        entries = self.recipe.config_of("corrupt") if self.recipe.has("corrupt") else []
        return [entry.set_label for entry in entries if entry.build(vocabulary).reads_words]

    def row(self, counts: EncodeCounts) -> StageRow:
        out = f"{plural(counts['documents_out'], 'document')}\n{counts['tokens']:,} tokens"
        if counts.get("target_tokens"):
            out += f"\n{counts['target_tokens']:,} of other sides"
        if lacking := counts.get("without_words"):
            out += f"\n{plural(lacking, 'document')} without words of encode.words"
        documents = counts.get("with_extra", {})
        absent = [key for key in self.config.extra if not documents.get(key)]
        lacks = (
            f"no document has {', '.join(absent)} (encode.extra): are the names those of the "
            "records?"
        )
        notes = tuple(filter(None, [UnknownShares.of(counts).summary(), lacks if absent else ""]))
        row = StageRow.of(counts, self.equations, plural(counts["documents_in"], "document"), out)
        unknown = ("unknown character", counts.get("unknown_reasons", {}))
        return replace(row, dropped=(*row.dropped, unknown), notes=notes)

    def provides(self, counts: EncodeCounts) -> Mapping[str, int]:
        amounts = dict(super().provides(counts))
        for what in ("documents", "tokens", "target_tokens") if "merged" in counts else ():
            total = counts["merged"].get(what, 0)
            heldout = counts["held_out"].get(what, 0)
            amounts |= {
                split_amount("heldout", what): heldout,
                split_amount("train", what): total - heldout,
            }
        return amounts
