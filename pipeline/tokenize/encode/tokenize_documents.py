"""The first pass of encode: tokenize the documents of a part into a run sorted by shard order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_documents, split_batches
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.registries import SegmenterComponent, SentencesComponent
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tables.dictionaries import read_switcher
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.code_switching import WordSwitcher
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.sentences import SentenceSplitter
from clozeline.pipeline.text.words import Segmenter
from clozeline.pipeline.tokenize.encode.sorted_runs import RunWriter
from clozeline.pipeline.tokenize.stage_files import open_tokenizer
from clozeline.pipeline.tokenize.tokenizers import Encoding, Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.tokenize.unknown_text import UnknownText
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import hash64, order_key

_BATCH_DOCUMENTS: Final = 256
_BATCH_CHARACTERS: Final = 1 << 22


class EncodeCounts(Counts, total=False):
    """Counts of units of `encode`."""

    rejected: dict[str, int]
    """rejected documents by reason"""
    characters: int
    tokens: int
    target_tokens: int
    """tokens of the target sides of pairs"""
    target_languages: dict[str, int]
    """target tokens by language"""
    sentences: dict[str, int]
    """sentences `found`, and sentences `merged` because another one starts at the same token"""
    words: int
    """words, if `encode.words` names segmenters"""
    without_words: int
    """documents without words from the segmenter of their language"""
    code_switch: dict[str, int]
    """`words` in the chosen sentences, and words that a translation `replaced`"""
    tokens_by_language: dict[str, int]
    text_by_language: dict[str, dict[str, int]]
    """`documents`, and their `words`, `characters` and `sentences`, or those of the first sides of
    pairs"""
    one_sentence: dict[str, dict[str, int]]
    """`documents` of one sentence and their `tokens`, by language"""
    unknown_text: dict[str, dict[str, int]]
    """`characters`, `tokens`, `unknown_characters` and `unknown_tokens` by language, of both sides
    of pairs"""
    unknown_reasons: dict[str, int]
    """unknown characters by reason"""
    unknown_examples: dict[str, dict[str, int]]
    """letters or words by reason, with the number of unknown tokens that contain them"""
    tokens_by_source: dict[str, int]
    held_out: dict[str, int]
    """held-out `documents`, and those of them that are `copies` of training documents; only if some
    are"""
    with_extra: dict[str, int]
    """documents by declared key of `extra`"""


@dataclass(frozen=True, slots=True)
class TokenDocument:
    """The tokens of a document and the first token of each sentence."""

    document: Document
    ids: NDArray[Any]
    sentence_starts: NDArray[np.uint32]
    sentences: int
    """number of sentences before merging those that start at the same token"""
    target_ids: NDArray[np.generic]
    """tokens of the target side of a pair"""
    word_starts: NDArray[np.uint32] | None = None
    """first token of each word, if the configuration names segmenters"""
    lacks_words: bool = False
    """whether the segmenter of its language found no word"""


@dataclass(frozen=True)
class SentenceSwitcher:
    """Translates words in sentences of training documents; held-out documents stay unchanged."""

    words: WordSwitcher
    splitter: SentenceSplitter
    heldout: float

    def switch(self, document: Document, counts: EncodeCounts) -> Document:
        """Return a document with translated words in both sides, and count the words."""
        if is_heldout(document.uid, self.heldout, self.words.seed):
            return document
        text = self._switch_text(document, "text", document.text, document.language, counts)
        if document.target_text is None:
            return document.replace(text=text)
        language = document.target_language or document.language
        target = self._switch_text(document, "target", document.target_text, language, counts)
        return document.replace(text=text, target_text=target)

    def _switch_text(
        self, document: Document, side: str, text: str, language: str, counts: EncodeCounts
    ) -> str:
        starts = self.splitter.starts(text, language)
        sentences = [text[start:end] for start, end in pairwise((*starts, len(text)))]
        for number, sentence in enumerate(sentences):
            index = hash64("sentence", document.uid, side, number)
            if self.words.chooses(index):
                sentences[number], words, replaced = self.words.translate_text(index, sentence)
                add_counts(counts, {"code_switch": {"words": words, "replaced": replaced}})
        return "".join(sentences)


@dataclass(frozen=True)
class Switching:
    """What decides which words of training documents are translated."""

    config: CodeSwitchConfig
    limits: InputLimits
    heldout: float


def sentence_starts(
    text: str,
    starts: Sequence[int],
    token_starts: NDArray[np.int64],
    token_ends: NDArray[np.int64] | None = None,
) -> NDArray[np.uint32]:
    """Return the first token of each sentence, ascending and distinct, the first 0.

    A sentence starts at the token of its first visible character. Leading white space of a token is
    ignored, so ` The` starts a sentence. A token of white space, or one across a boundary (`。他`),
    belongs to the previous sentence. Sentences that start at the same token are merged, so the
    result may be shorter than `starts`.

    Args:
        text: the document.
        starts: character offsets of the sentences, at visible characters except for the first.
        token_starts: `Encoding.starts`, [T], T >= 1.
        token_ends: `Encoding.ends`, [T], for tokens of a space and the first byte of a letter; None
            if no token ends inside a character.

    Example:
        "Hi. The end." with sentences at 0, 4 and the tokens `Hi` `.` `Ġthe` `Ġend` `.` gives 0, 2.
    """
    # tokens [S]: the first token at or after each sentence start; ambiguous [S]: the token before
    # may contain the first character
    visible = np.asarray(starts, dtype=np.int64)
    tokens = np.searchsorted(token_starts, visible)
    nearest = np.minimum(tokens, len(token_starts) - 1)
    ambiguous = (token_starts[nearest] != visible) | (tokens == len(token_starts))
    if token_ends is not None:
        ambiguous |= token_ends[np.maximum(tokens - 1, 0)] > visible

    # the token before starts the sentence if it has only white space before the character
    for row in np.flatnonzero(ambiguous).tolist():
        before = int(tokens[row]) - 1
        if before >= 0 and text[int(token_starts[before]) : int(visible[row])].isspace():
            tokens[row] = before

    tokens[0] = 0
    return np.unique(tokens[tokens < len(token_starts)]).astype(np.uint32)


def find_word_starts(
    document: Document, encoding: Encoding, vocabulary: Vocabulary, segmenter: Segmenter | None
) -> tuple[NDArray[np.uint32], bool]:
    """Return the first token of each word (first 0), and whether the segmenter found no word.

    Without words of a segmenter, the pieces decide. A token across two words belongs to the first.
    """
    starts = [] if segmenter is None else segmenter.starts(document.text, document.extra)
    if not starts:
        opens = vocabulary.opens_word(encoding.ids)
        opens[0] = True
        return np.flatnonzero(opens).astype(np.uint32), segmenter is not None
    return sentence_starts(
        document.text, [0, *filter(None, starts)], encoding.starts, encoding.ends
    ), False


def token_documents(
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    splitter: SentenceSplitter,
    unknown: UnknownText | None = None,
    segmenters: Mapping[str, Segmenter] = MappingProxyType({}),
) -> Iterator[TokenDocument]:
    """Yield the tokens and sentence starts of a batch of documents.

    A document without text has no tokens. Unknown text is counted in `unknown`. With segmenters, by
    language, word starts are included.
    """
    # encode both sides in one call each
    no_ids = np.empty(0, tokenizer.vocabulary.id_dtype)
    paired = [item for item in documents if item.target_text is not None]
    others = tokenizer.encode([item.target_text or "" for item in paired]) if paired else []
    targets = {item.uid: encoding.ids for item, encoding in zip(paired, others, strict=True)}
    encodings = tokenizer.encode([item.text for item in documents])

    if unknown is not None:
        for item, encoding in zip(documents, encodings, strict=True):
            unknown.add(item.language, item.text, encoding)
        for item, encoding in zip(paired, others, strict=True):
            unknown.add(item.target_language or "und", item.target_text or "", encoding)

    # find where sentences and words start
    for document, encoding in zip(documents, encodings, strict=True):
        target = targets.get(document.uid, no_ids)
        if len(encoding.ids) == 0:
            yield TokenDocument(document, encoding.ids, np.empty(0, np.uint32), 0, no_ids)
            continue
        starts = splitter.starts(document.text, document.language)
        tokens = sentence_starts(document.text, starts, encoding.starts, encoding.ends)
        encoded = TokenDocument(document, encoding.ids, tokens, len(starts), target)
        if segmenters:
            segmenter = segmenters.get(document.language)
            words, lacks = find_word_starts(document, encoding, tokenizer.vocabulary, segmenter)
            encoded = replace(encoded, word_starts=words, lacks_words=lacks)
        yield encoded


@dataclass(frozen=True)
class TokenizeDocuments(Unit[EncodeCounts]):
    """Write the sorted run of a part."""

    VERSION = 6
    part: str
    tokenizer_version: int
    sentences: SentencesComponent
    runs: Shuffle
    seed: int
    switching: Switching | None = None
    words: Mapping[str, SegmenterComponent] = field(default_factory=dict)
    extra: Sequence[str] = ()

    def run(self, inputs: UnitInputs, output: Output) -> EncodeCounts:
        folder = open_tokenizer(inputs)
        tokenizer = _load_once(folder, (folder / VOCABULARY_FILE).stat().st_mtime_ns)
        splitter: SentenceSplitter = self.sentences.build()
        counts: EncodeCounts = {
            "documents_in": 0,
            "documents_out": 0,
            "tokens": 0,
            "rejected": {"no_tokens": 0},
        }

        unknown = UnknownText(tokenizer)

        switcher: SentenceSwitcher | None = None
        if self.switching is not None:
            for path in self.switching.config.dictionaries:
                inputs.user_file(path)
            words = read_switcher(self.switching.config, self.switching.limits, self.seed, "encode")
            switcher = SentenceSwitcher(words, splitter, self.switching.heldout)

        with self.runs.write(output, self.part) as pieces:
            segmenters = LanguageTable(
                {language: chosen.build() for language, chosen in self.words.items()}
            )
            ids = tokenizer.vocabulary.id_dtype
            writer = RunWriter(
                pieces,
                ids,
                len(self.runs.destinations),
                words=bool(segmenters),
                extra=self.extra,
            )

            documents = read_documents(open_documents(inputs, self.part))
            for batch in split_batches(
                documents, lambda each: len(each.text), _BATCH_DOCUMENTS, _BATCH_CHARACTERS
            ):
                if switcher is not None:
                    batch = [switcher.switch(document, counts) for document in batch]
                try:
                    for item in token_documents(batch, tokenizer, splitter, unknown, segmenters):
                        add_counts(counts, _count(item))
                        if len(item.ids):
                            order = order_key(item.document.uid, "order", self.seed)
                            starts = (item.sentence_starts, item.target_ids, item.word_starts)
                            writer.add(item.document, order, item.ids, *starts)
                except BaseException as error:  # libraries panic, and do not say where
                    error.add_note(f"tokenizer {folder}")
                    for document in batch:
                        try:
                            [*token_documents([document], tokenizer, splitter, None, segmenters)]
                        except BaseException:
                            error.add_note(f"document at {document.offset} of {document.source}")
                            break
                    raise

            writer.close()

        return add_counts(counts, cast(EncodeCounts, unknown.counts()))


def _count(item: TokenDocument) -> EncodeCounts:
    if len(item.ids) == 0:
        return {"documents_in": 1, "rejected": {"no_tokens": 1}}

    tokens = len(item.ids)
    other = len(item.target_ids)
    counts: EncodeCounts = {
        "documents_in": 1,
        "documents_out": 1,
        "tokens": tokens,
        "characters": len(item.document.text),
        "sentences": {
            "found": item.sentences,
            "merged": item.sentences - len(item.sentence_starts),
        },
        "tokens_by_language": {item.document.language: tokens},
        "text_by_language": {
            item.document.language: {
                "documents": 1,
                "words": item.document.n_words,
                "characters": len(item.document.text),
                "sentences": len(item.sentence_starts),
            }
        },
        "tokens_by_source": {item.document.source_group: tokens},
    }

    # counts that only some documents have
    if len(item.sentence_starts) == 1:
        counts["one_sentence"] = {item.document.language: {"documents": 1, "tokens": tokens}}

    if item.word_starts is not None:
        counts["words"] = len(item.word_starts)
        if item.lacks_words:
            counts["without_words"] = 1

    if other:
        counts["target_tokens"] = other
        counts["target_languages"] = {item.document.target_language or "und": other}

    return counts


@lru_cache(maxsize=1)
def _load_once(folder: Path, written: int) -> Tokenizer:
    """Load a tokenizer once per process, and again if its file is newer than `written`."""
    return load_tokenizer(folder)
