"""SentencePiece models: bytes of pieces, and conversion to the `tokenizers` library."""

import re
from collections.abc import Sequence
from typing import Any, Final

import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers

KINDS: Final = sentencepiece_model_pb2.ModelProto.SentencePiece
SPACE: Final = "\u2581"
"""The mark of a space; this character in a text is encoded as its three bytes."""
_BPE: Final = 2


def bytes_of(piece: Any) -> bytes | None:
    """Return the bytes of a piece; None if it has no text."""
    if piece.type in (KINDS.CONTROL, KINDS.UNKNOWN):
        return None
    if piece.type == KINDS.BYTE:
        return bytes([int(piece.piece[3:5], 16)])
    text: str = piece.piece
    return text.replace(SPACE, " ").encode()


def decisive_facts(name: str, facts: Any) -> dict[str, Any]:
    """Return what determines the ids of a text: pieces, normalizer and flags, not the options of the trainer."""
    normalizer = facts.normalizer_spec
    return {
        "name": name,
        "pieces": [[piece.piece, piece.score, piece.type] for piece in facts.pieces],
        "normaliser": [
            normalizer.precompiled_charsmap.hex(),
            normalizer.add_dummy_prefix,
            normalizer.remove_extra_whitespaces,
            normalizer.escape_whitespaces,
        ],
        "flags": [facts.trainer_spec.byte_fallback, facts.trainer_spec.treat_whitespace_as_suffix],
    }


def to_tokenizers(facts: Any, pieces: Sequence[Any]) -> tokenizers.Tokenizer:
    """Convert a model proto, with its pieces in order of their ids, to the `tokenizers` library.

    The ids differ only for ties and rare white space; `export_tokenizer` counts the differences.
    """
    if facts.trainer_spec.model_type == _BPE:
        model = tokenizers.Tokenizer(_bpe(facts, pieces))
    else:
        unknown = next((number for number, piece in enumerate(pieces) if piece.type == KINDS.UNKNOWN), None)
        fallback = any(piece.type == KINDS.BYTE for piece in pieces)
        scores = [(piece.piece, piece.score) for piece in pieces]
        model = tokenizers.Tokenizer(models.Unigram(scores, unknown, fallback))
    if steps := _normalizer_steps(facts.normalizer_spec):
        model.normalizer = normalizers.Sequence(steps)
    user_defined = sorted((piece.piece for piece in pieces if piece.type == KINDS.USER_DEFINED), key=len, reverse=True)
    if user_defined:
        pattern = "|".join(re.escape(piece) for piece in user_defined)
        model.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if facts.normalizer_spec.add_dummy_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    model.decoder = decoders.Sequence(steps)
    return model


def _normalizer_steps(spec: Any) -> list[Any]:
    steps: list[Any] = [normalizers.Precompiled(spec.precompiled_charsmap)] if spec.precompiled_charsmap else []
    if spec.remove_extra_whitespaces:
        steps += [
            normalizers.Replace(tokenizers.Regex(r"\A +| +\z"), ""),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return [*steps, normalizers.Replace(" ", SPACE)] if spec.escape_whitespaces else steps


def _bpe(facts: Any, pieces: Sequence[Any]) -> models.BPE:
    """Return a BPE model with a merge for each split of a piece into two pieces, by the rank of the piece."""
    ids = {piece.piece: number for number, piece in enumerate(pieces)}
    normal = {piece.piece: (-piece.score, ids[piece.piece]) for piece in pieces if piece.type == KINDS.NORMAL}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in sorted(normal, key=normal.__getitem__)
        for cut in range(1, len(piece))
        if piece[:cut] in normal and piece[cut:] in normal
    ]
    unknown = next((piece.piece for piece in pieces if piece.type == KINDS.UNKNOWN), None)
    return models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=facts.trainer_spec.byte_fallback)
