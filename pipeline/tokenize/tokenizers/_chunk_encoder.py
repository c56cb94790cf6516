"""Encode a text chunk by chunk with a cache, for tokenizers none of whose tokens crosses a chunk boundary."""

import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from typing import Any, Final

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT, byte_alphabet, cut

_SPACE: Final = "\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that no normalizer deletes as a control character."""
_COMPLETE: Final = re.compile(".+", re.DOTALL)
_SPACE_TOO: Final = f"{_SPACE}\v\f\x85"
_LETTERS: Final = (
    "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02af\u0388-\u038a\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u05d0-\u05ea"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fea\uac00-\ud7a3"
)
_MARKS: Final = "\xab\xbb\u2013\u2014\u2018-\u201d\u2026"
"""Frequent punctuation marks beyond ASCII."""
_SOLID: Final = f"!-~{_MARKS}{_LETTERS}"
"""Characters that are a grapheme of their own before a space, and no normal form of which starts or ends with one."""
_SIGN: Final = f"\0-\x08\x0e-\x1f!-/:-@[-`{{-\x7f{_MARKS}"
_ALONE: Final = f"(?![^\0-\x7f{_MARKS}{_LETTERS}])"


def _between(space: str) -> str:
    """Return the pattern of words with the space before them, and of other white space."""
    return f"[{space}]+(?![^{space}])| ?[^{space}]+|[{space}]+"


SPACED: Final = re.compile(_between(_SPACE))
BYTE_LEVEL: Final = re.compile(
    f"'(?:[sdmt]|ll|ve|re){_ALONE}| ?[{_LETTERS}]++{_ALONE}| ?[0-9]++{_ALONE}|(?!'[a-z]) ?[{_SIGN}]++{_ALONE}"
    f"|{_between(_SPACE_TOO)}"
)
"""GPT-2's words, spelled out for frequent characters: fewer different ones than between white space."""
_SOLIDS: Final = re.sub("(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), _SOLID)
_CACHED_CHUNKS: Final = 1 << 18
_CHUNK_CHARACTERS: Final = 64

_CASELESS: Final = (
    f"'(?:[sdmtSDMT]|[lL][lL]|[vVrR][eE]){_ALONE}|[\t\v\f {_SIGN}]?[{_LETTERS}]++{_ALONE}|[0-9]{{1,3}}+{_ALONE}"
    f"|(?![{_SIGN}][{_LETTERS}]) ?[{_SIGN}]++[\r\n]*+{_ALONE}"
    f"|[{_SPACE_TOO}]*[\r\n]|[{_SPACE_TOO}]+(?![^{_SPACE_TOO}])| (?=[0-9])|"
)
"""The same for Llama 3, GPT-4 and Qwen 2; other words as between solid characters."""
_ASCII: Final = r" ?[A-Za-z0-9]++(?=[ -/:-@[-`{-~]|\Z)|[!-/:-@[-`{-~]++|"
"""Words and punctuation marks of BERT before ASCII, which no normalizer joins."""
_SUFFIX: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED: Final = [f"{_UPPER}*{_LOWER}+{suffix}|{_UPPER}+{_LOWER}*{suffix}" for suffix in ("", f"{_SUFFIX}?")]
_WORDS: Final = {
    **{rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{word}+": word for word in (r"\p{L}", r"[\p{L}\p{M}]")},
    **dict.fromkeys(_CASED, r"\p{L}"),
}
_SPLITS: Final = {
    rf"{word}|\p{{N}}{digits}| ?[^\s{letters.strip('[]')}\p{{N}}]+[\r\n{slash}]*|\s*[\r\n]+|\s+(?!\S)|\s+": (
        word not in _CASED and not slash
    )
    for (word, letters), digits, slash in product(_WORDS.items(), ("", "{1,3}"), ("", "/"))
}
"""The words of Llama 3, GPT-4 and Qwen, which `_CASELESS` has, and those of GPT-4o and Mistral Nemo."""

_LOCAL: Final = {
    *("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Strip", "StripAccents")
}


def _bordered(space: str, last: str = "", before_line: str | None = None, finer: str = "") -> re.Pattern[str]:
    """Return the pattern of chunks that end before white space, between two solid characters.

    Args:
        space: characters that start the white space of a border.
        last: those of them that may start a chunk alone, which leaves the white space before them to another chunk.
        before_line: characters that may not follow a line end that ends a chunk; None: line ends end no chunk.
        finer: patterns of further chunks, each with `|` behind it.
    """
    border = rf"(?=[{space}][{_SPACE}]*+[{_SOLID}])"
    line = rf"(?=[ \t]*+[{_SOLID}])(?![{before_line}])" if before_line is not None else "(?!)"
    # a carriage return and the line feed behind it are one character to some normalizers
    blanks = rf"|[{space}][{_SPACE}]*(?=[{last}][{_SOLID}])(?<!\r)" if last else ""
    word = f"[{last}]?+" if last else f"(?:[{space}][{_SPACE}]*+)?+"
    return re.compile(
        rf"{finer}{word}[{_SOLID}]++(?:{border}|\n{line}|\Z){blanks}"
        rf"|.+?(?:(?<=[{_SPACE}{_SOLID}][{_SOLID}]){border}|(?<=\n){line}|\Z)",
        re.DOTALL,
    )


def chunk_rule(
    facts: Mapping[str, Any], bare: Collection[str], library: tokenizers.Tokenizer
) -> tuple[re.Pattern[str], bool]:
    """Return the chunks of a `tokenizer.json` whose tokens do not cross them, and whether token bytes are the text's.

    A chunk ends before white space at which the pre-tokenizer splits, or that no piece has behind another character.
    A complete text is one chunk if steps of the file may look beyond, or ordinary added tokens. `bare` pieces never
    occur in text.

    Example: "the cat, the mat" has the chunks `the` ` cat,` ` the` ` mat`, or ` cat` `,` in byte-level BPE.
    """
    normalizer, cutters = _steps(facts.get("normalizer")), _steps(facts.get("pre_tokenizer"))
    added = [entry for entry in facts["added_tokens"] if entry["content"] not in bare]
    if not all(map(_is_local, normalizer)) or not all(map(_has_no_space, added)):
        return _COMPLETE, False
    kinds = [cutter["type"] for cutter in cutters]
    # what white space between letters becomes
    becomes = {blank: _normalize(library, f"a{blank}a")[1:-1] for blank in " \t\n\r"}
    if kinds[:1] in (["BertPreTokenizer"], ["WhitespaceSplit"]) and set(kinds[1:]) <= {"Metaspace"}:
        space = "".join(blank for blank, new in becomes.items() if new.isspace())
        plain = (
            kinds == ["BertPreTokenizer"] and not added and {step["type"] for step in normalizer} <= {"BertNormalizer"}
        )
        return _bordered(space, space, finer=_ASCII if plain else "") if space else _COMPLETE, False
    if any(step["type"] == "Strip" for step in normalizer) or not _keeps_solids(library, becomes[" "]):
        return _COMPLETE, False
    if kinds[-1:] == ["ByteLevel"]:
        chunks = _byte_level_chunks(cutters, plain=not added and all(step["type"] == "NFC" for step in normalizer))
        chunks = chunks if all(blank == new for blank, new in becomes.items()) else _COMPLETE
        is_plain = facts["model"]["type"] == "BPE" and not normalizer and not added and chunks is not _COMPLETE
        return chunks, is_plain and byte_alphabet().keys() <= facts["model"]["vocab"].keys() - bare
    mark = cutters[0]["replacement"] if kinds == ["Metaspace"] else becomes[" "]
    if becomes[" "] not in (" ", mark):
        return _COMPLETE, False
    if kinds == ["Metaspace"] and cutters[0].get("split", True):
        space = "".join(blank for blank, new in becomes.items() if new in (" ", mark))
        squeezes = any(step.get("pattern") == {"Regex": " {2,}"} for step in normalizer)
        return _bordered(space, "" if squeezes else space), False
    is_split = kinds in ([], ["Metaspace"]) or (cutters[0].get("pattern") == {"String": " "} and mark == "\u2581")
    crosses = len(kinds) > 1 or not is_split or _has_crossing(facts["model"], mark)
    return _COMPLETE if crosses else _bordered(" ", "", "^ "), False


def _steps(step: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer one after another."""
    if not step or step["type"] != "Sequence":
        return [step] if step else []
    return [single for part in step.get("normalizers", step.get("pretokenizers")) for single in _steps(part)]


def _is_local(step: Mapping[str, Any]) -> bool:
    """Return whether a normalizer changes what is before a border and after it independently."""
    if step["type"] != "Replace":
        return step["type"] in _LOCAL
    ((kind, pattern),) = step["pattern"].items()
    if pattern == " " or (kind == "Regex" and pattern == " {2,}"):
        return step["content"] in (" ", "\u2581")
    return kind == "String" and bool(step["content"]) and not re.search(r"[\s\u2581]", pattern + step["content"])


def _has_no_space(entry: Mapping[str, Any]) -> bool:
    """Return whether an added token takes no white space in or around it."""
    content = r"[!-~]+" if entry["normalized"] else r"\S+"
    return not entry["lstrip"] and not entry["rstrip"] and bool(re.fullmatch(content, entry["content"]))


def _normalize(library: tokenizers.Tokenizer, text: str) -> str:
    return str(library.normalizer.normalize_str(text)) if library.normalizer else text


def _keeps_solids(library: tokenizers.Tokenizer, space: str) -> bool:
    """Return whether each solid character is normalized to something without a space at its ends."""
    words = _normalize(library, f"a {' '.join(_SOLIDS)} a").split(space) if space else []
    return len(words) == len(_SOLIDS) + 2 and all(word and word.strip() == word for word in words)


def _byte_level_chunks(cutters: Sequence[Mapping[str, Any]], *, plain: bool) -> re.Pattern[str]:
    """Return the chunks of byte-level pieces; `plain` if only words matter."""
    *splits, level = cutters
    if level["add_prefix_space"] or level.get("use_regex", True) != (not splits):
        return _COMPLETE
    if not splits:
        return BYTE_LEVEL if plain else _bordered(_SPACE, _SPACE)
    first = splits[0]
    caseless = _SPLITS.get(first.get("pattern", {}).get("Regex")) if len(splits) == 1 else None
    if caseless is None or first["behavior"] != "Isolated" or first["invert"]:
        return _COMPLETE
    return _bordered(" ", " ", "/", _CASELESS if plain and caseless else "")


def _has_crossing(model: Mapping[str, Any], mark: str) -> bool:
    """Return whether a token may have a space (`mark`) behind another character where words are not split."""
    return (
        model["type"] != "BPE"
        or any(model.get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"))
        or mark not in model["vocab"]
        or any(mark in piece.lstrip(mark) for piece in model["vocab"])
    )


class ChunkEncoder:
    """Encodes each chunk (a match of `chunks`) once and caches short ones; the chunks of a text cover it.

    Very long words are cut, which bounds memory. Without `offsets`, encodings have ids only. The library alone encodes
    .2 to .5 times as many bytes a second.
    """

    def __init__(
        self, library: tokenizers.Tokenizer, chunks: re.Pattern[str], dtype: Any, *, offsets: bool = True
    ) -> None:
        self._chunks, self._dtype, self._offsets = chunks, np.dtype(dtype), offsets
        self._encode = library.encode_batch if offsets else library.encode_batch_fast
        self._cache: dict[str, tuple[bytes, bytes]] = {}

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the ids and token offsets of each text."""
        encodings = []
        for text in texts:
            long: dict[str, tuple[bytes, bytes]] = {}
            parts = self._look_up(self._split(text), long)
            bounds = lru_cache(partial(self._bounds, text, long))
            starts, ends = (lambda side=side, bounds=bounds: bounds()[:, side] for side in (0, 1))
            encodings.append(Encoding(np.frombuffer(b"".join([ids for ids, _ in parts]), self._dtype), starts, ends))
        return encodings

    def _split(self, text: str) -> list[str]:
        chunks = self._chunks.findall(text)
        if len(text) > ENCODING_CUT and self._chunks is not _COMPLETE:
            return [part for chunk in chunks for part in cut(chunk, ENCODING_CUT)]
        return chunks

    def _bounds(self, text: str, long: dict[str, tuple[bytes, bytes]]) -> NDArray[np.int64]:
        """Return the first character of each token and the one after its last, [T, 2]."""
        chunks = self._split(text)
        parts = [part for _, part in self._look_up(chunks, long)]
        # the same within its chunk, plus the start of the chunk
        bounds: NDArray[np.int64] = np.frombuffer(b"".join(parts), np.int32).astype(np.int64).reshape(-1, 2)
        begins = np.cumsum([0, *map(len, chunks)])[:-1]
        bounds += np.repeat(begins, [len(part) >> 3 for part in parts])[:, None]
        return bounds

    def _look_up(self, chunks: Sequence[str], long: dict[str, tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return ids and token bounds of each chunk; add those of uncached ones to `long`."""
        if len(self._cache) > _CACHED_CHUNKS:
            self._cache.clear()
        new = set(chunks).difference(self._cache, long)
        uncached = [chunk for chunk in new if len(chunk) > _CHUNK_CHARACTERS]
        # long ones one by one, for the memory of the library
        for known, batch in ((self._cache, list(new.difference(uncached))), *((long, [chunk]) for chunk in uncached)):
            rows = self._encode(batch, add_special_tokens=False) if batch else []
            known.update(zip(batch, map(self._to_bytes, rows), strict=True))
        return [self._cache.get(chunk) or long[chunk] for chunk in chunks]

    def _to_bytes(self, row: tokenizers.Encoding) -> tuple[bytes, bytes]:
        bounds = chain.from_iterable(row.offsets) if self._offsets else ()
        return bytes(array(self._dtype.char, row.ids)), bytes(array("i", bounds))
