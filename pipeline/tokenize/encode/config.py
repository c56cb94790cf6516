"""Options of `encode`: sentence splitter, segmenters of words and code switching."""

from dataclasses import field
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.registries import SENTENCES, SegmenterComponent, SentencesComponent
from clozeline.pipeline.text.code_switching import CodeSwitchConfig


@config_class
class EncodeConfig:
    """Options of the tokenization."""

    sentences: SentencesComponent = field(default_factory=SENTENCES.default("regex"))
    """sentence splitter, a file of pipeline/text/sentences/: `regex`, or `lines` where each line is
    a sentence"""
    words: dict[str, SegmenterComponent] = field(default_factory=dict)
    """segmenters of languages without blanks between words, files of pipeline/text/words/, by the
    language of the documents: {zh: jieba, ja: fugashi, th: pythainlp}, with `pip install
    'clozeline[words]'`, or {zh: {name: given, key: words}} for words that come with the documents.
    Where words start is stored with the tokens, for objectives over whole words. Without, each
    piece of the tokenizer is a word there"""
    code_switch: CodeSwitchConfig | None = None
    """translate words of the training documents by dictionaries, sentence by sentence, so that
    masked and translation LM learn from mixed languages: {dictionaries: [en-de.txt], sentence_rate:
    0.5, word_rate: 0.3}; null: none"""
    extra: list[str] = field(default_factory=list)
    """columns of the records that travel with the documents, such as [license, score]:
    `inspect-shard` shows them, and the manifest has documents and tokens of each value, or count,
    sum, least and greatest of numbers"""
    max_unknown: Annotated[float, Field(ge=0, le=1)] = 0.5
    """share of all characters that may become unknown tokens, 0 to 1; above it, encode ends with an
    error"""

    def __post_init__(self) -> None:
        for language, chosen in self.words.items():
            known = chosen.type.languages
            if known and language not in known:
                raise ValueError(
                    f"words: {chosen.name} is for {', '.join(known)}, got the language {language!r}"
                )
