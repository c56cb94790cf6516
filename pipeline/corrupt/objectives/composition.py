"""Composition: apply several denoising corruptions to each sample, one after another (BART)."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Bool, Int64, UInt8
from clozeline.configuration.config import config_class, to_data
from clozeline.pipeline.corrupt.objectives import RandomKeys, Skip
from clozeline.pipeline.corrupt.objectives._denoising import DenoisingPair, PairOptions, TokenRows
from clozeline.pipeline.corrupt.objectives._groupings import holds_documents
from clozeline.pipeline.kernels.ragged import insert_at
from clozeline.pipeline.registries import OBJECTIVES, ObjectiveComponent
from clozeline.pipeline.rows import Example, ExampleBatch, Ragged, SampleBatch, ShardRow
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary


class Composition(DenoisingPair):
    """Combined noise of BART (arXiv 1910.13461 §2.2, §5): several corruptions, one after another.

    The target is the uncorrupted original. The name of a step keys its draws, so adding a step
    never changes the draws of another. The rate of a step applies to the tokens that this step
    reads. A step that cannot apply (one sentence, one token) leaves the row unchanged. Features:
    `input_ids`, `target_ids`, and the noise of each step, prefixed with its name:
    `text_infilling_span_starts`.

    With `language_tokens` (mBART, arXiv 2001.08210 §2.2), input and target end with `</s>` and the
    token of the row's language. The same token starts the decoder's input.

    Example (order 1, 0, then the span success . Hard; without special tokens):
        target   Hard work leads to success . Success brings happiness .
        step 1   Success brings happiness . Hard work leads to success .
        input    Success brings [MASK] work leads to success .
    """

    draws_by_label = False

    @config_class
    class Options(PairOptions):
        steps: Annotated[list[ObjectiveComponent], Field(min_length=1)] = field(
            default_factory=OBJECTIVES.defaults("sentence_reordering", "text_infilling")
        )
        """Denoising objectives with their options, in this order: sentence reordering or rotation,
        then deletion or reordering of tokens, then masking or infilling. Options of rows and
        grouping belong to the composition."""
        language_tokens: dict[str, str] = field(default_factory=dict)
        """Special piece of each language, such as `{en: <en>, de: <de>}`, instead of
        `decoder_start`; rows of other languages are skipped. Empty: no language tokens."""

        def __post_init__(self) -> None:
            if self.language_tokens and holds_documents(self):
                raise ValueError(
                    "language_tokens needs grouping: document; other rows hold several languages"
                )
            if len({*self.language_tokens.values()}) < len(self.language_tokens):
                raise ValueError(
                    "language_tokens: two languages have the same token, got "
                    f"{self.language_tokens}"
                )

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.steps: Sequence[DenoisingPair] = [
            self._step(chosen, vocabulary) for chosen in options.steps
        ]
        self.reads_words = any(step.reads_words for step in self.steps)

        # each step once, in the order of their ranks
        names = [step.label for step in self.steps]
        ranks = [step.composition_rank for step in self.steps]
        if len(set(names)) < len(names):
            raise self.refuse_options(f"steps {names}: name each step once")
        if ranks != sorted(ranks):
            raise self.refuse_options(
                f"steps {names} are in the wrong order: first sentence reordering or rotation, "
                "then deletion or reordering of tokens, then masking or infilling"
            )

        noise = [(step.label, feature) for step in self.steps for feature in step.noise_features]
        self.noise_features = tuple(
            replace(feature, name=f"{label}_{feature.name}") for label, feature in noise
        )

        if options.language_tokens:
            self.grouping = self.make_grouping(options.grouping, self.grouping.length - 1)
            self.decoder_start = "target_end"
            self.language_tokens, self._language_ids = self._find_language_ids()

    @property
    def reads_sentences(self) -> bool:
        return any(part.reads_sentences for part in self.steps)

    def _find_language_ids(self) -> tuple[dict[str, int], Int64]:
        """Return the id of the token of each language, and of each code; -1 for no token."""
        vocabulary = self.vocabulary
        wanted = LanguageTable(self.options.language_tokens)
        if vocabulary.folder is None or not vocabulary.languages:  # no corpus, so no rows
            return {}, np.zeros(0, np.int64)
        piece_of = load_tokenizer(vocabulary.folder).piece
        ids = {piece_of(token): token for token in np.flatnonzero(vocabulary.special).tolist()}
        # entries of languages that the corpus does not have may lack a piece
        present = [wanted[language] for language in vocabulary.languages if language in wanted]
        if lacking := [token for token in present if token not in ids]:
            raise self.refuse_options(
                f"language_tokens: the tokenizer has no special piece {', '.join(lacking)}; train "
                f"it with `train_tokenizer.options.reserved: [{', '.join(lacking)}, ...]`, or name "
                "pieces that it has"
            )

        pieces = self.options.language_tokens
        known = {name: ids[piece] for name, piece in pieces.items() if piece in ids}
        codes = [ids[wanted[name]] if name in wanted else -1 for name in vocabulary.languages]
        return known, np.array(codes, np.int64)

    def add_skip_reasons(self, samples: SampleBatch, skips: UInt8) -> UInt8:
        """Skip rows whose language has no token."""
        if self.options.language_tokens:
            codes = samples.fixed["language"]
            if len(codes) and codes.max() >= len(self._language_ids):
                raise self.refuse_options(
                    "language_tokens: these rows do not name their languages; use the sample sets "
                    "of a recipe"
                )
            skips[(skips == Skip.NONE) & (self._language_ids[codes] < 0)] = Skip.NO_LANGUAGE_TOKEN
        return skips

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Apply the noise, then add the special tokens; the language token comes last."""
        columns = dict(super().corrupt_rows(samples, random_keys))
        if self.options.language_tokens:
            last = self._language_ids[samples.fixed["language"]]
            for name in ("input_ids", "target_ids"):
                rows = columns[name]
                offsets = rows.offsets + np.arange(len(rows) + 1)
                columns[name] = Ragged(insert_at(rows.values, offsets[1:] - 1, last), offsets)
        return columns

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Return the original; check that input and target end with the same language token."""
        if self.options.language_tokens:
            rows = {name: example[name] for name in ("input_ids", "target_ids")}
            if rows["input_ids"][-1] != rows["target_ids"][-1]:
                raise ValueError("input and target end with different language tokens")
            columns = {name: example[name] for name in example.columns} | {
                name: ids[:-1] for name, ids in rows.items()
            }
            example = ShardRow(example.fixed, columns)
        return super()._restore(example)

    def _step(self, chosen: ObjectiveComponent, vocabulary: Vocabulary) -> DenoisingPair:
        if not issubclass(chosen.type, DenoisingPair) or issubclass(chosen.type, Composition):
            raise self.refuse_options(
                f"'{chosen.name}' is not a denoising objective and cannot be a step"
            )

        defaults = to_data(PairOptions())
        options = to_data(chosen.options)
        changed = sorted(key for key in defaults if options[key] != defaults[key])
        if changed:
            raise self.refuse_options(
                f"step '{chosen.name}': set {', '.join(changed)} in the composition, not in a step"
            )

        step = chosen.build(vocabulary, chosen.name)

        assert isinstance(step, DenoisingPair)

        return step

    @staticmethod
    def _noise_of(step: DenoisingPair, noise: Mapping[str, object]) -> dict[str, Any]:
        return {
            feature.name: noise[f"{step.label}_{feature.name}"] for feature in step.noise_features
        }

    def add_noise(
        self, text: TokenRows, random_keys: RandomKeys
    ) -> tuple[Ragged, dict[str, Ragged]]:
        """Run the steps, each on the ids and sentence starts that the previous step returned."""
        noise: dict[str, Ragged] = {}

        for step in self.steps:
            ids, step_noise = step.add_noise(text, random_keys)
            noise |= {f"{step.label}_{name}": column for name, column in step_noise.items()}
            if step is self.steps[-1]:
                return ids, noise
            text = TokenRows(
                ids,
                step.sentence_starts_after(text, step_noise),
                self._words_after(step, text, random_keys),
            )

        raise AssertionError("a composition has steps")

    def _words_after(
        self, step: DenoisingPair, text: TokenRows, random_keys: RandomKeys
    ) -> Bool | None:
        """Return which tokens open a word after a step; None without word starts from segmenters.

        Noise does not depend on the ids of ordinary tokens. So the step runs on two marker ids: one
        for each token that opens a word, one for each other token.
        """
        if text.opens_word is None:
            return None
        ids = text.ids.values
        opening, inside = self.vocabulary.replaceable[:2].astype(ids.dtype)
        marks = np.where(
            self.vocabulary.special.take(ids), ids, np.where(text.opens_word, opening, inside)
        )
        moved, _ = step.add_noise(
            TokenRows(Ragged(marks, text.ids.offsets), text.sentence_starts), random_keys
        )
        opens: Bool = moved.values == opening
        return opens

    def tally(self, examples: ExampleBatch) -> dict[str, Any]:
        passed = {
            step.label: step.count_unchanged(self._noise_of(step, examples.columns))
            for step in self.steps
        }
        return {"passed_through": {label: rows for label, rows in passed.items() if rows}}

    def sentence_starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        raise NotImplementedError("a composition is never a step")

    def undo(
        self, content: NDArray[np.int64], noise: Mapping[str, NDArray[np.generic]], length: int
    ) -> NDArray[np.int64]:
        for step in reversed(self.steps):
            content = step.undo(content, self._noise_of(step, noise), length)
        return content
