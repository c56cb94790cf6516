"""Causal language modeling: predict each token from the tokens before it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.columns import IDS, POSITIONS, ROW, Feature, Role
from clozeline.configuration.config import config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._groupings import (
    GroupingName,
    check_grouping,
    holds_documents,
)
from clozeline.pipeline.corrupt.objectives._objective import DOCUMENT_FEATURES, LANGUAGE_FEATURES
from clozeline.pipeline.group.groupings import MinimumRow, starts_dtype
from clozeline.pipeline.kernels.ragged import add_special_tokens, scalars, shift_starts
from clozeline.pipeline.kernels.sampling import list_indices, offsets_of
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Example, Ragged, SampleBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary

_LEFT_TO_RIGHT: Final = 1
_ROW_IDS: Final = Feature("input_ids", "ids", IDS, "the row")
_FEATURES: Final[Mapping[str, tuple[Feature, ...]]] = {
    "decoder": (_ROW_IDS,),
    "encoder": (
        _ROW_IDS,
        Feature(
            "attention", "uint8", Role("row", below=4), "1: position i attends to positions j <= i"
        ),
    ),
    "encoder_decoder": (
        Feature("input_ids", "ids", IDS, "</s> alone: the encoder reads no text"),
        Feature("target_ids", "ids", IDS, "the row"),
    ),
}


class CausalLM(Objective):
    """Causal LM of GPT (Radford et al. 2018; GPT-3: arXiv 2005.14165): predict the next token.

    Packed rows stay unchanged, with their separators. A document becomes `x </s>`, or with
    `add_bos` `<s> x </s>`. The labels are the next tokens; they are not stored.

    For an encoder-decoder, the input is `</s>` alone and the row is the target. With
    `cross_documents: false` the input has one `</s>` for each document. An encoder reads
    `[CLS] x [SEP]` left to right (`attention` 1), so causal and masked sets can share samples
    (GPT-BERT: arXiv 2410.24159).

    With `attention: bidirectional` a decoder sees every token that it predicts. It copies them: its
    loss falls to almost 0, and it cannot generate. Only lessons need it.

    Nothing is random. Features: `input_ids` [L]; some options add `target_ids`, `attention`,
    `languages`, `document_starts`, `target_document_starts`, or with bidirectional attention
    `prefix_length`, `label_positions` and `label_ids`. Otherwise no positions are stored, so rows
    may have any length.

    Example (document):
        input   The kitten is chasing </s>
        labels  kitten is chasing </s>, none for the last
    """

    longest_row = None
    min_redrawn_share = 0.0
    architectures = ("decoder", "encoder_decoder", "encoder")
    heads: ClassVar[tuple[str, ...]] = ("lm", "masked_lm")

    @config_class
    class Options:
        architecture: Literal["decoder", "encoder_decoder", "encoder"] = "decoder"
        """Model that reads the rows."""
        max_length: Annotated[int, Field(ge=2)] = 1024
        """Tokens in a full row, special tokens included. It has one label less: for the 2,048
        labels of a row elsewhere, set 2049, and as many learned positions."""
        grouping: GroupingName = "packed"
        """Grouping to read."""
        separator: Literal["none", "sep", "eos"] = "eos"
        """Special token between the documents of packed rows."""
        attention: Literal["causal", "bidirectional"] = "causal"
        """Attention of a decoder: `bidirectional` shows it the tokens that it predicts, so that it
        learns to copy them; for lessons."""
        add_bos: bool = False
        """Put `<s>` in front of each document row; not for encoders, whose rows have [CLS]."""
        cross_documents: bool = True
        """Let attention and loss cross documents in packed rows; false stores `document_starts`."""
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "pad"
        """First token of the decoder's input, for an encoder-decoder."""
        languages: bool = False
        """Store the language of each row, for encoders with language embeddings (XLM); needs
        `grouping: document`."""

        def __post_init__(self) -> None:
            if self.add_bos and holds_documents(self):
                raise ValueError("add_bos needs grouping: document; packed rows stay unchanged")
            if self.add_bos and self.architecture == "encoder":
                raise ValueError("add_bos is not for encoders: their rows start with [CLS]")
            if self.attention == "bidirectional" and not self.cross_documents:
                raise ValueError(
                    "attention: bidirectional reads the complete row; remove cross_documents"
                )

            if self.languages and (self.architecture != "encoder" or holds_documents(self)):
                raise ValueError("languages: true needs architecture: encoder, grouping: document")
            check_grouping(self)
            refuse_unread_keys(self, "architecture", {"encoder_decoder": ("decoder_start",)})
            refuse_unread_keys(self, "architecture", {"decoder": ("attention",)})

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)

        # special tokens around a row, and its length without them
        if options.architecture == "encoder":
            self.first_token, self.last_token = self.id_of("cls"), self.id_of("sep")
        else:
            eos = self.id_of("eos")
            self.first_token = self.id_of("bos") if options.add_bos else None
            self.last_token = None if holds_documents(options) else eos

        frame_tokens = (self.first_token is not None) + (self.last_token is not None)
        self.grouping = self.make_grouping(
            options.grouping, options.max_length - frame_tokens, options.separator
        )
        self.minimum = MinimumRow(
            tokens=2 if options.architecture == "decoder" and holds_documents(options) else 1
        )

        if options.architecture == "encoder_decoder":
            self._eos = self.id_of("eos")
            self.decoder_start = self.id_of(options.decoder_start)
        elif options.architecture == "encoder":
            self.predict_from = "previous"

        self._leaks = options.attention == "bidirectional"
        self.predicts_next = not self._leaks and options.architecture != "encoder_decoder"
        leaked: tuple[Feature, ...] = ()
        if self._leaks:
            self.caution = (
                "attention: bidirectional shows the model the tokens that it predicts; it learns "
                "to copy them, and cannot generate"
            )
            # without stored labels, the tokens of a prefix would have none
            dtype = starts_dtype(self.content_length)
            leaked = (
                Feature("prefix_length", dtype, ROW, "the length of the row: every token sees all"),
                Feature("label_positions", dtype, POSITIONS, "every position but the last"),
                Feature(
                    "label_ids", "ids", Role("label", "label_positions"), "the token after each"
                ),
            )

        # the class lists the heads of all architectures, an instance the heads of one
        head = "masked_lm" if options.architecture == "encoder" else "lm"
        self.heads = (head,)  # type: ignore[misc]
        features = (
            *_FEATURES[options.architecture],
            *leaked,
            *(LANGUAGE_FEATURES if options.languages else ()),
        )
        sides = DOCUMENT_FEATURES[: 2 if options.architecture == "encoder_decoder" else 1]
        starts = tuple(replace(side, dtype=starts_dtype(self.content_length)) for side in sides)
        self.features = features if options.cross_documents else (*features, *starts)

    @property
    def form(self) -> RowForm:
        form = super().form
        if self.options.architecture != "encoder_decoder":
            return form
        return form.model_copy(update={"tail": (self._eos,), "continues_text": True})

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Add special tokens to documents and to rows of an encoder."""
        ids = samples.columns["ids"]
        framed = self.first_token is not None or self.last_token is not None
        rows = add_special_tokens(ids, self.first_token, self.last_token) if framed else ids

        if self.options.architecture == "encoder_decoder":
            sources = Ragged.from_matrix(
                np.full((len(ids), 1), self._eos, dtype=self.vocabulary.id_dtype)
            )
            if self.options.cross_documents:
                return {"input_ids": sources, "target_ids": rows}

            # one `</s>` of input for each document
            documents = samples.columns["document_starts"]
            index = list_indices(documents.lengths)
            return {
                "input_ids": Ragged(
                    np.full_like(index, self._eos, dtype=self.vocabulary.id_dtype),
                    documents.offsets,
                ),
                "target_ids": rows,
                "document_starts": Ragged(index.astype(documents.values.dtype), documents.offsets),
                "target_document_starts": documents,
            }

        columns = {"input_ids": rows}
        if self.options.architecture == "encoder":
            columns["attention"] = scalars(np.full(len(ids), _LEFT_TO_RIGHT), np.uint8)
        if self._leaks:
            dtype = starts_dtype(self.content_length)
            offsets = offsets_of(rows.lengths - 1)
            positions = list_indices(rows.lengths - 1).astype(dtype)
            following = segments(rows.values, rows.offsets[:-1] + 1, rows.lengths - 1)
            columns["prefix_length"] = scalars(rows.lengths, dtype)
            columns["label_positions"] = Ragged(positions, offsets)
            columns["label_ids"] = Ragged(following, offsets)
        if self.options.languages:
            columns["languages"] = scalars(samples.fixed["language"], np.uint8)
        if not self.options.cross_documents:
            head = int(self.first_token is not None)
            columns["document_starts"] = shift_starts(samples.columns["document_starts"], head)

        return columns

    def _restore(self, example: Example) -> NDArray[np.generic]:
        return example[
            "target_ids" if self.options.architecture == "encoder_decoder" else "input_ids"
        ]
