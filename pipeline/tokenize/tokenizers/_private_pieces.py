"""The form of a `tokenizer.json` that encodes text: special pieces have names that no text can spell."""

import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

_PRIVATE: Final = f"\uffff{secrets.token_hex(16)}"
"""Prefix of the names of special pieces: drawn in each process and never written, so that no text can contain it."""


def piece_ids(facts: dict[str, Any]) -> dict[str, int]:
    """Return the id of each piece of a `tokenizer.json`, with its added tokens."""
    pieces = facts["model"]["vocab"]
    ids = dict(pieces) if isinstance(pieces, dict) else {piece[0]: token for token, piece in enumerate(pieces)}
    return ids | {entry["content"]: entry["id"] for entry in facts["added_tokens"]}


def hide_pieces(facts: dict[str, Any], special: Collection[str]) -> tuple[dict[str, Any], int]:
    """Return a `tokenizer.json` that gives the same ids, but none of a special piece, and the number of lost merges."""
    return rename_pieces(facts, {piece: _PRIVATE + piece for piece in special})


def rename_pieces(facts: dict[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """Return a `tokenizer.json` with other names of special pieces wherever they stand, and the number of lost merges.

    They are not removed, because the library would number the added tokens behind them anew. Merges that build or use
    one are left out. So are truncation, padding, the template and BPE dropout.
    """
    model, pieces = dict(facts["model"]), facts["model"]["vocab"]
    if isinstance(pieces, dict):
        model["vocab"] = {names.get(piece, piece): token for piece, token in pieces.items()}
    else:
        model["vocab"] = [[names.get(piece, piece), *rest] for piece, *rest in pieces]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    merges = model.get("merges") or []
    if merges:
        prefix = model.get("continuing_subword_prefix") or ""
        model["merges"] = [
            [left, right]
            for left, right in merges
            if not names.keys() & {left, right, left + right.removeprefix(prefix)}
        ]
    if model.get("dropout"):
        model["dropout"] = None
    added = [
        {**entry, "content": names[entry["content"]], "special": True} if entry["content"] in names else entry
        for entry in facts["added_tokens"]
    ]
    plain = dict.fromkeys(("truncation", "padding", "post_processor"))
    return {**facts, **plain, "model": model, "added_tokens": added}, len(merges) - len(model.get("merges") or [])
