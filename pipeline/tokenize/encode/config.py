"""Options of `encode`: sentence splitter, word segmenters and code switching."""

from dataclasses import field
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.registries import SENTENCES, SegmenterComponent, SentencesComponent
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.language_codes import LanguageTable


@config_class
class EncodeConfig:
    """How documents are tokenized and split into sentences and words."""

    sentences: SentencesComponent = field(default_factory=SENTENCES.default("regex"))
    """sentence splitter, a file of pipeline/text/sentences/: `regex`, or `lines` if each line is a
    sentence"""
    words: dict[str, SegmenterComponent] = field(default_factory=dict)
    """word segmenters by language, for languages without spaces between words; files of
    pipeline/text/words/: {zh: jieba, ja: fugashi, th: pythainlp} with `pip install
    'clozeline[words]'`, or {zh: {name: given, key: words}} if the documents include their words.
    The word starts are stored with the tokens, for objectives that mask words. Without a segmenter
    each piece of the tokenizer counts as a word in these languages"""
    code_switch: CodeSwitchConfig | None = None
    """replace words of the training documents with translations from dictionaries, sentence by
    sentence, so that masked and translation LM learn from mixed languages: {dictionaries:
    [en-de.txt], sentence_rate: 0.5, word_rate: 0.3}; null: no replacement"""
    extra: list[str] = field(default_factory=list)
    """columns of the records to store in the document table, such as [license, score].
    `inspect-shard` shows them"""
    max_unknown: Annotated[float, Field(ge=0, le=1)] = 0.5
    """largest share of all characters that may become unknown tokens, 0 to 1; above it, encode
    stops with an error"""

    def __post_init__(self) -> None:
        for language, chosen in self.words.items():
            known = chosen.type.languages
            if known and language not in LanguageTable(dict.fromkeys(known)):
                raise ValueError(
                    f"words: {chosen.name} segments {', '.join(known)}, got the language "
                    f"{language!r}"
                )
