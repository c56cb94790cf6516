"""The stage `encode`: tokenize documents into token shards, equal for any number of tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError, plural, share_text
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.plan import power_of_two
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Pass, Stage, parents_of, tokenizer_stage
from clozeline.pipeline.execution.unit_record import total_counts
from clozeline.pipeline.registries import SEGMENTERS
from clozeline.pipeline.tables.dictionaries import read_switcher
from clozeline.pipeline.text.language_codes import LanguageTable, base_language
from clozeline.pipeline.text.text_statistics import UNSPACED_LANGUAGES
from clozeline.pipeline.tokenize.encode.config import EncodeConfig
from clozeline.pipeline.tokenize.encode.merge_runs import (
    AssignCodes,
    MergeRuns,
    TokenManifest,
    name_shard,
)
from clozeline.pipeline.tokenize.encode.sentence_notes import (
    describe_unsplit,
    explain_phrases,
    explain_unsplit,
)
from clozeline.pipeline.tokenize.encode.tokenize_documents import (
    EncodeCounts,
    Switching,
    TokenizeDocuments,
)
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.tokenize.unknown_text import UnknownShares
from clozeline.pipeline.vocabulary import Vocabulary

_MEMORY_PER_TEXT_BYTE: Final = 2.5
"""memory for each byte of text in a shard: `group` took 0.68 GB for 0.28 GB, `merge` less"""
_SHARD_TEXT_BYTES: Final = 1 << 28
"""Most bytes of text in a shard, unless `plan.shard_bytes` is set."""


class EncodeStage(Stage[EncodeConfig, EncodeCounts]):
    """Tokenize each part into sorted runs, assign codes, merge the runs, write the manifest."""

    name = "encode"
    after = ("tokenizer",)
    in_heldout = True
    cpu_seconds_per_mb = 0.19
    needs = ("clean",)
    equations = (
        *Stage.equations,
        # the text of all tokens is compared with the original
        Equation(["tokens", "target_tokens"], [("unknown_text", EACH, "tokens")]),
        Equation([("unknown_text", EACH, "unknown_characters")], ["unknown_reasons"]),
    )

    def validate(self) -> Iterator[str]:
        """Check that the recipe has a tokenizer, and that segmenters are installed."""
        tokenizer_stage(self.recipe)
        for chosen in self.config.words.values():
            try:
                chosen.build()
            except ConfigurationError as error:
                yield str(error)
        if self.config.code_switch is not None:
            read_switcher(self.config.code_switch, self.recipe.limits, self.recipe.seed, self.name)

    def passes(self) -> Sequence[Pass[EncodeCounts]]:
        recipe = self.recipe
        config = self.config
        shards = self._shards
        source = tokenizer_stage(recipe)
        expected = source.expected_tokenizer()
        destinations = tuple(name_shard(shard, shards) for shard in range(shards))
        runs = Shuffle("runs", self.plan.names, destinations, "tokenize")
        pieces = runs.pieces
        heldout = recipe.heldout.fraction
        extra = tuple(config.extra)
        switching = (
            None
            if config.code_switch is None
            else Switching(config.code_switch, recipe.limits, heldout)
        )
        tokenize = {
            part: TokenizeDocuments(
                part,
                expected.version,
                config.sentences,
                runs,
                recipe.seed,
                switching,
                config.words,
                extra,
            )
            for part in self.plan.names
        }
        codes = AssignCodes(
            np.dtype(expected.vocabulary.id_dtype).itemsize, config.max_unknown, bool(config.words)
        )
        merge = {
            f"{shard:06d}": MergeRuns(shard, shards, pieces, heldout, recipe.seed, extra)
            for shard in range(shards)
        }
        manifest = TokenManifest(
            recipe.corpus,
            shards,
            recipe.seed,
            self._recorded_config,
            source.name,
            parents_of(recipe, self.name),
        )
        return [
            Pass("tokenize", tokenize),
            *runs.passes(self.name),
            Pass("codes", {"000000": codes}),
            Pass("merge", merge),
            Pass("manifest", {"000000": manifest}, lists_units=True),
        ]

    @cached_property
    def _text_bytes(self) -> int:
        """Bytes of the text that `clean` kept."""
        counts = total_counts(self.recipe.folder("clean"), "main")
        return int(max(counts.get("text_bytes", 0), counts.get("characters_out", 0)))

    @property
    def _shards(self) -> int:
        """Number of shards: a file may hold a hundred times more text than its stored bytes."""
        planned = self.plan.shards
        if self.recipe.plan_options.shard_bytes is not None:
            return planned
        return max(planned, power_of_two(-(-self._text_bytes // _SHARD_TEXT_BYTES)))

    @property
    def memory(self) -> tuple[float, str]:
        shard = (self._text_bytes or self.plan.bytes) / self._shards
        return super().memory[0] + _MEMORY_PER_TEXT_BYTE * shard, "plan.shard_bytes"

    @property
    def _recorded_config(self) -> Mapping[str, Any]:
        """Return the options that the manifest records; `words` and `extra` only if given."""
        config: dict[str, Any] = to_data(self.config)
        return {
            key: value for key, value in config.items() if value or key not in ("words", "extra")
        }

    def warning(self) -> str:
        lines: list[str] = []
        if self.recipe.has("clean"):
            documents = total_counts(self.recipe.folder("clean"), "main").get("languages", {})
            wanted = self._find_sentence_objectives()
            lines.append(self._explain_words(documents))
            lines.append(explain_phrases(documents, self.config.sentences.build(), wanted))
        return "\n".join(filter(None, lines))

    def _explain_words(self, documents: Mapping[str, int]) -> str:
        """Return a warning about languages whose words no segmenter finds, else "".

        It concerns languages without spaces between words, if an objective masks words. Segmenters
        for languages that no document has are reported, too. `documents` are counts by language.
        """
        # segmenters for languages that no document has
        words = LanguageTable(self.config.words)
        if unused := sorted({*words} - {words.find_key(language) for language in documents}):
            return (
                f"words: encode.words names {', '.join(unused)}, but the languages of the "
                f"documents are {', '.join(sorted(documents))}: set them by clean.language, or by "
                "`language` of the input"
            )

        # languages without spaces and without a segmenter
        wanted = self._find_word_objectives()
        if not wanted:
            return ""
        segmenters = LanguageTable(
            {
                language: name
                for name, segmenter in SEGMENTERS.classes().items()
                for language in segmenter.languages
            }
        )

        unspaced = {
            language
            for language in documents
            if (base_language(language) in UNSPACED_LANGUAGES or language in segmenters)
            and language not in words
        }
        if not unspaced:
            return ""

        number = sum(documents[language] for language in unspaced)
        line = (
            f"words: {plural(number, 'document')} of {sum(documents.values()):,} "
            f"({', '.join(sorted(unspaced))}) have no spaces between words, so each piece of the "
            f"tokenizer counts as a word in {', '.join(wanted)}"
        )

        named = [
            f"{language}: {segmenters[language]}"
            for language in sorted(unspaced)
            if language in segmenters
        ]
        remedy = (
            f"; encode.words: {{{', '.join(named)}}} finds words (pip install 'clozeline[words]')"
        )
        return line + remedy if named else line

    @cached_property
    def _objectives(self) -> dict[str, Any]:
        """Return the objectives of the recipe by label; the tokenizer must exist."""
        folder = tokenizer_stage(self.recipe).folder / "tokenizer"
        vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
        entries = self.recipe.config_of("corrupt") if self.recipe.has("corrupt") else []
        return {entry.set_label: entry.build(vocabulary) for entry in entries}

    def _find_word_objectives(self) -> list[str]:
        """Return the labels of objectives that read words."""
        return [label for label, made in self._objectives.items() if made.reads_words]

    def _find_sentence_objectives(self) -> list[str]:
        """Return the labels of objectives that need several sentences in a row."""
        return [label for label, made in self._objectives.items() if made.reads_sentences]

    def row(self, counts: EncodeCounts) -> StageRow:
        out = f"{plural(counts['documents_out'], 'document')}\n{counts['tokens']:,} tokens"
        if counts.get("target_tokens"):
            out += f"\n{counts['target_tokens']:,} in the other sides of pairs"
        if lacking := counts.get("without_words"):
            out += f"\n{plural(lacking, 'document')} without words (encode.words)"
        documents = counts.get("with_extra", {})
        absent = [key for key in self.config.extra if not documents.get(key)]
        lacks = (
            f"no document has {', '.join(absent)} (encode.extra): do the records use these names?"
        )
        unsplit = describe_unsplit(counts)
        wanted = self._find_sentence_objectives() if unsplit else []
        remarks = [UnknownShares.of(counts).summary(), explain_unsplit(unsplit, wanted)]
        if held_out := counts.get("held_out"):
            copies = held_out["copies"]
            share = share_text(copies / held_out["documents"])
            remarks.append(
                f"{copies:,} of {held_out['documents']:,} held-out texts ({share}) are also "
                "training texts: the key dedup removes copies"
            )
        notes = tuple(filter(None, [*remarks, lacks if absent else ""]))
        row = StageRow.of(counts, self.equations, plural(counts["documents_in"], "document"), out)
        unknown = ("unknown character", counts.get("unknown_reasons", {}))
        sources = {"tokens": counts["tokens_by_source"]}
        return replace(row, dropped=(*row.dropped, unknown), notes=notes, sources=sources)
