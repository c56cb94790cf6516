"""Base of the denoising objectives for encoder-decoders: corrupted input, original target, and the noise to undo it.

Each objective is a function from text to text; a composition runs several of them in sequence.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.arrays import Int64
from clozeline.configuration.config import STRICT
from clozeline.pipeline.corrupt.objectives import Draws, Frame, Objective
from clozeline.pipeline.corrupt.objectives._objective import DOCUMENT_FEATURES
from clozeline.pipeline.kernels.ragged import IdSet, add_special_tokens, shift_starts
from clozeline.pipeline.rows import Example, Feature, Ragged, SampleBatch
from clozeline.pipeline.vocabulary import Vocabulary

SourceHead = Literal["none", "bos", "cls"]
DecoderStart = Literal["pad", "bos", "eos", "cls"]

# Marks a token that the noise removed.
LOST = -1


@dataclasses.dataclass(frozen=True, slots=True)
class TokenRows:
    """Content tokens of many rows, with the starts of their sentences and, if noise must not cross them, documents."""

    ids: Ragged
    sentence_starts: Ragged
    document_starts: Ragged | None = None
    """None: noise may cross documents."""


def require_content_only(ids: Ragged, reserved: IdSet, wanted_by: str) -> None:
    """Raise ValueError if a row holds a reserved id, which could not be told from the special tokens we add."""
    if reserved.contains_any(ids.values):
        # the first reserved id: its flat position, and its row
        position = int(np.flatnonzero(reserved.mask(ids.values))[0])
        row = int(np.searchsorted(ids.offsets, position, side="right")) - 1
        raise ValueError(
            f"{wanted_by}: row {row} holds the reserved id {int(ids.values[position])} at "
            f"{position - int(ids.offsets[row])}; expected content only: group with separator: none"
        )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PairOptions:
    """Options that all denoising objectives share."""

    # Descriptions are given as arguments: docstrings of attributes do not reach inheriting classes.
    max_length: Annotated[int, Field(ge=3, description="Tokens in the longest input, frame included.")] = 512
    grouping: Annotated[Literal["document", "packed"], Field(description="Grouping to read.")] = "document"
    cross_documents: Annotated[
        bool,
        Field(description="Let noise and attention cross documents in packed rows; false stores their starts."),
    ] = True
    source_head: Annotated[SourceHead, Field(description="Special token in front of the input.")] = "bos"
    decoder_start: Annotated[
        DecoderStart, Field(description="Special token that opens the decoder's input; added in batches, never stored.")
    ] = "eos"

    def __post_init__(self) -> None:
        if not self.cross_documents and self.grouping == "document":
            raise ValueError("cross_documents: false concerns packed rows; a document row holds one document")


class DenoisingPair(Objective):
    """`input_ids`: corrupted text with special tokens; `target_ids`: original and `</s>`; plus features of the noise.

    With `cross_documents: false`, noise stays inside documents, and `document_starts` and `target_document_starts` are
    stored; the first document includes the special token in front, the last one `</s>`.
    """

    architectures: ClassVar[tuple[str, ...]] = ("encoder_decoder",)
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    noise_features: tuple[Feature, ...]
    composition_rank: ClassVar[int]
    """Order of the step in a composition: 0 structure, 1 deletion and reordering, 2 masking."""
    isolates: bool = False
    """True if the noise can stay inside documents and keeps a part of each."""

    def __init__(self, options: Any, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        if not (self.isolates or options.cross_documents):
            raise self.refuse_options(
                "cross_documents: false: its noise moves text from one document to another, or deletes a whole one; "
                "expected grouping: document, whose rows hold one each"
            )
        head: SourceHead = options.source_head
        self._head = None if head == "none" else self.id_of(head)
        self._eos = self.id_of("eos")
        self.frame = Frame("right", self.id_of(options.decoder_start))
        frame_tokens = 1 + (self._head is not None)
        self.grouping = self.make_grouping(options.grouping, options.max_length - frame_tokens)
        self._reserved = IdSet(vocabulary.reserved)

    @property
    def features(self) -> tuple[Feature, ...]:  # type: ignore[override]
        return (
            Feature("input_ids", "ids", 1, "framed corrupted text"),
            Feature("target_ids", "ids", 1, "original text and </s>"),
            *self.noise_features,
            *(() if self.options.cross_documents else DOCUMENT_FEATURES),
        )

    @abstractmethod
    def noise(self, text: TokenRows, draws: Draws) -> tuple[Ragged, dict[str, Ragged]]:
        """Corrupt every row; return content ids and noise features. Rows that cannot be corrupted stay unchanged."""

    @abstractmethod
    def starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the sentence starts of `text` after this noise; called by compositions only."""

    def documents_after(self, documents: Ragged, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the document starts of `text` after this noise; unchanged by default."""
        return documents

    def count_unchanged(self, noise: Mapping[str, Ragged]) -> int:
        """Count the rows that this noise did not change, without skipped rows."""
        return 0

    @abstractmethod
    def undo(self, content: Int64, noise: Mapping[str, NDArray[Any]], length: int) -> Int64:
        """Undo the noise of one row: return the original, with `LOST` where the noise removed a token.

        Args:
            content: corrupted tokens without special tokens; `LOST` where unknown.
            noise: the row's noise features.
            length: number of tokens of the original.
        """

    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """Apply the noise, then add special tokens."""
        ids = samples.columns["ids"]
        require_content_only(ids, self._reserved, f"objective '{self.label}' ({self.name})")
        documents = None if self.options.cross_documents else samples.columns["document_starts"]
        text = TokenRows(ids, samples.columns["sentence_starts"], documents)
        corrupted, noise = self.noise(text, draws)
        columns = {
            "input_ids": add_special_tokens(corrupted, self._head, self._eos),
            "target_ids": add_special_tokens(ids, None, self._eos),
            **noise,
        }
        if documents is not None:
            starts = shift_starts(self.documents_after(documents, text, noise), int(self._head is not None))
            columns |= {"document_starts": starts, "target_document_starts": documents}
        return columns

    def add_special_tokens(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return `<s> x </s>`, or without the head."""
        head = [] if self._head is None else [self._head]
        return np.concatenate((head, ids, [self._eos])).astype(self.vocabulary.id_dtype)

    def invert(self, example: Example) -> NDArray[Any]:
        """Return the target, after checking that undoing the noise of the input gives the same tokens."""
        original = example["target_ids"][:-1]
        first = 0 if self._head is None else 1
        content = example["input_ids"][first:-1].astype(np.int64)
        noise = {feature.name: example[feature.name] for feature in self.noise_features}
        restored = self.undo(content, noise, len(original))
        known = restored != LOST
        if len(restored) != len(original) or (restored[known] != original[known]).any():
            raise ValueError(f"objective '{self.label}': input, noise and target of the example contradict each other")
        return self.add_special_tokens(original)
