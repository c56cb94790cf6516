"""Causal language modelling: predict each token from those before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.groupings import Least
from pipeline.kernels.ragged import framed
from pipeline.objectives import Draws, Frame, Objective
from pipeline.rows import Example, Feature, Ragged, SampleBatch
from pipeline.vocabulary import Vocabulary

__all__ = ["CausalLM"]


class CausalLM(Objective):
    """Causal LM of GPT (Radford et al. 2018; GPT-3: arXiv 2005.14165).

    Packed rows stand as they are, separators inside; a document is framed `x </s>`, with `<s>` first where asked for.
    Labels are the next tokens and are not stored. As an encoder-decoder, the input is `</s>` alone and the row is the
    target. Nothing is drawn. Features: `input_ids` [L] (and `target_ids`, `document_starts`).

    Example (document):
        input   The kitten is chasing </s>
        labels  kitten is chasing </s>, none for the last
    """

    name: ClassVar[str] = "causal_lm"
    VERSION: ClassVar[int] = 1
    architectures: ClassVar[tuple[str, ...]] = ("decoder", "encoder_decoder")
    heads: ClassVar[tuple[str, ...]] = ("lm",)

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """Parameters of causal LM."""

        architecture: Literal["decoder", "encoder_decoder"] = "decoder"
        """Which model reads the rows."""
        max_length: Annotated[int, Field(ge=2)] = 1024
        """Tokens in a full row, frame included."""
        grouping: Literal["packed", "document"] = "packed"
        """Grouping to read."""
        separator: Literal["none", "sep", "eos"] = "eos"
        """Special token between the documents of packed rows."""
        add_bos: bool = False
        """Put `<s>` in front of a document row."""
        cross_documents: bool = True
        """Whether attention and loss cross documents in packed rows; false stores `document_starts`."""
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "pad"
        """Special token that opens the decoder's input of an encoder-decoder."""

        def __post_init__(self) -> None:
            """Check what concerns several options."""
            if self.add_bos and self.grouping == "packed":
                raise ValueError("add_bos concerns document rows; packed rows stand as they are")
            if not self.cross_documents and (self.grouping != "packed" or self.architecture != "decoder"):
                raise ValueError("cross_documents: false concerns packed rows of a decoder")

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        packed, decoder = options.grouping == "packed", options.architecture == "decoder"
        self._eos = self.id_of("eos")
        self._head = self.id_of("bos") if options.add_bos else None
        self._tail = None if packed else self._eos
        frame_tokens = (self._head is not None) + (self._tail is not None)
        self.grouping = self.grouped(options.grouping, options.max_length - frame_tokens, options.separator)
        self.least = Least(tokens=2 if packed and decoder else 1)
        self.frame = Frame("right", None if decoder else self.id_of(options.decoder_start))
        if decoder:
            features: tuple[Feature, ...] = (Feature("input_ids", "ids", 1, "the row"),)
        else:
            source = Feature("input_ids", "ids", 1, "</s> alone: nothing is given")
            features = (source, Feature("target_ids", "ids", 1, "the row"))
        if not options.cross_documents:
            starts = Feature("document_starts", "uint16", 1, "places in input_ids where documents start, first 0")
            features = (*features, starts)
        self.features = features

    def kernel(self, samples: SampleBatch, draws: Draws) -> Mapping[str, Ragged]:
        """The rows, framed where they are documents."""
        ids = samples.columns["ids"]
        rows = ids if self._head is None and self._tail is None else framed(ids, self._head, self._tail)
        if self.options.architecture == "encoder_decoder":
            sources = Ragged.from_matrix(np.full((len(ids), 1), self._eos, dtype=self.vocabulary.id_dtype))
            return {"input_ids": sources, "target_ids": rows}
        columns = {"input_ids": rows}
        if not self.options.cross_documents:
            columns["document_starts"] = samples.columns["document_starts"]
        return columns

    def framed(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The row as it stands in the example."""
        head = [] if self._head is None else [self._head]
        tail = [] if self._tail is None else [self._tail]
        return np.concatenate((head, ids, tail)).astype(self.vocabulary.id_dtype)

    def uncorrupt(self, example: Example) -> NDArray[Any]:
        """The row itself."""
        return example["input_ids" if self.options.architecture == "decoder" else "target_ids"]
