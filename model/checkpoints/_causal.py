"""Encoders of transformers that read from left to right: `is_decoder` in config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clozeline.model.checkpoints._key_map import KeyMap


def causal_map(whole: KeyMap, headed: str) -> KeyMap:
    """Return the map of a type's causal class: the names of its masked LM, which is a head for next tokens there.

    Args:
        whole: map of the type.
        headed: name of the class, such as BertLMHeadModel.
    """

    def is_written_by(self: KeyMap, plain: Mapping[str, Any]) -> bool:
        """Return whether config.json asks for a causal model."""
        return bool(plain.get("is_decoder"))

    kind = type(whole)
    members = {
        "headed": headed,
        "auto": "AutoModelForCausalLM",
        "heads": ("lm",),
        "others": (),
        "tasks": {},
        "marks": {},
        "body": ("family.",),
        "head_options": {"projection": "transformed"},
        "projections": ("transformed",),
        "fixed": {**kind.fixed, "family": "decoder"},
        "only": {**kind.only, "is_decoder": (True,)},
        "modules": {name.replace("heads.masked_lm.", "heads.lm."): theirs for name, theirs in kind.modules.items()},
        "causal": None,
        "is_written_by": is_written_by,
    }
    found: KeyMap = type(f"Causal{kind.__name__}", (kind,), members)()
    return found
