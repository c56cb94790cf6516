"""Causal variants of encoder types: `is_decoder` in config.json of transformers."""

from clozeline.model.checkpoints._conversion.key_map import KeyMap


def causal_map(encoder: KeyMap, headed: str) -> KeyMap:
    """Return the map of a type's causal class, such as BertLMHeadModel: the names of its masked LM head."""
    kind = type(encoder)
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
        "is_written_by": lambda self, plain: bool(plain.get("is_decoder")),
    }
    return type(f"Causal{kind.__name__}", (kind,), members)()
