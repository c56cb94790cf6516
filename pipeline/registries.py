"""The registries of the pipeline: folders with one algorithm per file, and their interfaces."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces, which import numpy
    from clozeline.pipeline.clean.extractors import Extractor
    from clozeline.pipeline.clean.filters import Filter
    from clozeline.pipeline.clean.languages import LanguageIdentifier
    from clozeline.pipeline.corrupt.objectives import Objective
    from clozeline.pipeline.dedup.keys import DedupKey
    from clozeline.pipeline.execution.executors import Executor
    from clozeline.pipeline.group.groupings import Grouping
    from clozeline.pipeline.ingest.readers import Reader
    from clozeline.pipeline.set_kinds import SetKind
    from clozeline.pipeline.text.sentences import SentenceSplitter
    from clozeline.pipeline.text.words import Segmenter
    from clozeline.pipeline.tokenize.tokenizers import Tokenizer
    from clozeline.pipeline.tokenize.tokenizers._pieces import TrainableTokenizer

READERS: Registry["Reader"] = Registry(
    "clozeline.pipeline.ingest.readers", "Reader", suffix="Reader", address="ingest/readers"
)
"""readers of documents"""
EXTRACTORS: Registry["Extractor"] = Registry(
    "clozeline.pipeline.clean.extractors", "Extractor", suffix="Extractor"
)
"""Extractors of text from HTML."""
LANGUAGES: Registry["LanguageIdentifier"] = Registry(
    "clozeline.pipeline.clean.languages", "LanguageIdentifier"
)
"""Language identifiers."""
FILTERS: Registry["Filter"] = Registry("clozeline.pipeline.clean.filters", "Filter")
"""Filters of documents."""
DEDUP_KEYS: Registry["DedupKey"] = Registry(
    "clozeline.pipeline.dedup.keys", "DedupKey", suffix="Config", address="keys/dedup"
)
"""Keys of `dedup` that extensions add."""
TOKENIZERS: Registry["Tokenizer"] = Registry("clozeline.pipeline.tokenize.tokenizers", "Tokenizer")
"""Tokenizers."""
SENTENCES: Registry["SentenceSplitter"] = Registry(
    "clozeline.pipeline.text.sentences", "SentenceSplitter"
)
"""Sentence splitters."""
SEGMENTERS: Registry["Segmenter"] = Registry("clozeline.pipeline.text.words", "Segmenter")
"""Segmenters of words, for languages that write no spaces."""
GROUPINGS: Registry["Grouping"] = Registry(
    "clozeline.pipeline.group.groupings", "Grouping", suffix="Grouping"
)
"""Groupings of token documents to samples."""
OBJECTIVES: Registry["Objective"] = Registry("clozeline.pipeline.corrupt.objectives", "Objective")
"""Pretraining objectives."""
SET_KINDS: Registry["SetKind"] = Registry("clozeline.pipeline.set_kinds", "SetKind")
"""Kinds of sets that extensions write, by the objective that their manifests record."""
EXECUTORS: Registry["Executor"] = Registry("clozeline.pipeline.execution.executors", "Executor")
"""Executors of the units of a stage."""

ExtractorComponent: TypeAlias = Annotated[Component["Extractor"], EXTRACTORS]
LanguageComponent: TypeAlias = Annotated[Component["LanguageIdentifier"], LANGUAGES]
FilterComponent: TypeAlias = Annotated[Component["Filter"], FILTERS]
SentencesComponent: TypeAlias = Annotated[Component["SentenceSplitter"], SENTENCES]
SegmenterComponent: TypeAlias = Annotated[Component["Segmenter"], SEGMENTERS]
ExecutorComponent: TypeAlias = Annotated[Component["Executor"], EXECUTORS]
TokenizerComponent: TypeAlias = Annotated[Component["TrainableTokenizer"], TOKENIZERS]
ObjectiveComponent: TypeAlias = Annotated[Component["Objective"], OBJECTIVES]
"""Types of fields that name an algorithm."""
