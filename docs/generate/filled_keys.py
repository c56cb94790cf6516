"""The table of the keys of a training that are filled in, from the rules themselves."""

from typing import Final

from clozeline.train.startup.fill_in import RULES

_HEAD: Final = """# What a start fills in

A configuration may leave these keys open. A start fills them in, each by one rule, and a dry run
does the same. `config.yaml` of the run has the values, and says above them which keys were filled
in, from what. What you set stays, unless the second column says otherwise.

| key | left open by | follows from | a resumed run |
|---|---|---|---|
"""
_RESUMED: Final = {
    "": "applies the rule again",
    "config": "keeps it",
    "continued": "keeps it; so does a branch (`schedule.decay_from`)",
}


def filled_keys_page() -> str:
    """Return docs/filled-keys.md."""
    rows = (
        f"| `{key}` | {rule.opens} | {rule.source} | {_RESUMED[rule.kept]} |"
        for key, rule in RULES.items()
    )
    return _HEAD + "\n".join(rows) + "\n"
