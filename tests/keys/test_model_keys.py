"""Every key of a model, its heads and its adapters changes a bit in small models of every kind, or
is refused.

What neither changes a bit nor is refused stands in a list, with the reason why it may stay.
"""

import pytest

from clozeline.model.registries import ADAPTERS, FAMILIES, HEADS
from tests.contracts import contract
from tests.keys.effects import REFUSED, digest_of_model, has_value, head_digest, with_keys
from tests.keys.head_cases import ADAPTER_VALUES, HEAD_NEUTRAL, HEAD_VALUES, READ_WITH, SIZES
from tests.keys.model_cases import BASES, ENCODER, FAMILY_VALUES, NEUTRAL, VALUES
from tests.keys.schema import all_head_keys, family_keys, head_keys, model_keys, own_keys
from tests.matrices import mark_slow_but


def test_every_key_of_a_model_has_an_entry():
    assert VALUES.keys() | NEUTRAL.keys() >= model_keys()
    assert VALUES.keys() <= model_keys()


def test_every_key_of_a_family_has_an_entry():
    assert FAMILY_VALUES.keys() == family_keys()
    assert {base["family"] for base in BASES.values()} == {*FAMILIES.available()}


def test_every_key_of_a_head_or_adapter_has_an_entry():
    assert HEAD_VALUES.keys() == all_head_keys()
    assert ADAPTER_VALUES.keys() == own_keys(ADAPTERS)
    assert {key for key in READ_WITH if "." in key} <= head_keys()


def silent_keys(name):
    """Yield the keys, with their values, that change nothing in a model and are not refused."""
    base = BASES[name]
    unchanged = digest_of_model(base)

    assert unchanged != REFUSED

    own = {
        key.partition(".")[2]: values
        for key, values in FAMILY_VALUES.items()
        if key.startswith(f"{base['family']}.")
    }
    for key, values in {**VALUES, **own}.items():
        for value in values:
            if key in NEUTRAL or f"{name}: {key}" in NEUTRAL or has_value(base, key, value):
                continue
            if digest_of_model(with_keys(base, {key: value})) == unchanged:
                yield key, value


@pytest.mark.parametrize("name", mark_slow_but(["bert"], BASES))
def test_every_key_of_a_model_changes_a_bit_or_is_refused(name):
    assert [*silent_keys(name)] == [], (
        "refuse the key where it is validated, or name the reason in NEUTRAL"
    )


def is_shown(key, value, name):
    """Return whether a value of a key changes a bit in a model."""
    base = BASES[name]
    if has_value(base, key, value):
        return False
    return digest_of_model(with_keys(base, {key: value})) not in (digest_of_model(base), REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted({*VALUES, *FAMILY_VALUES}))
def test_every_key_changes_a_bit_in_some_model(key):
    """A key that every model refuses would be of no use."""
    family, _, own = key.partition(".") if key in FAMILY_VALUES else ("", "", key)
    of_family = [
        name for name, base in BASES.items() if base["family"] == (family or base["family"])
    ]
    values = FAMILY_VALUES[key] if family else VALUES[key]

    assert any(is_shown(own, value, name) for name in of_family for value in values)


BODY = {key: value for key, value in ENCODER.items() if key != "heads"} | {
    "tied": False,
    "dropout": {"hidden": 0.1},
}


def effects_of_head_keys(name):
    """Yield the keys of heads with whether they change this head.

    Without a key that they need, too.
    """
    sizes = SIZES.get(name, {})

    for key, value in HEAD_VALUES.items():
        read_with = READ_WITH.get(f"{name}.{key}", READ_WITH.get(key, {}))
        for beside in [sizes] if not read_with else [sizes, {**sizes, **read_with}]:
            unchanged, changed = (
                head_digest(name, BODY, options) for options in (beside, {**beside, key: value})
            )
            if unchanged != REFUSED and changed != REFUSED:
                yield key, changed != unchanged


@contract(HEADS, slow=lambda name: name not in ("similarity", "lm"))
def test_every_key_of_heads_changes_a_bit_or_is_refused(name):
    effects = [*effects_of_head_keys(name)]
    silent = {
        key for key, has_effect in effects if not has_effect and f"{name}.{key}" not in HEAD_NEUTRAL
    }

    assert silent <= HEAD_NEUTRAL.keys(), (
        "refuse the key where it is validated, or name the reason in HEAD_NEUTRAL"
    )

    read = {key.partition(".")[2] for key in head_keys() if key.startswith(f"{name}.")}

    assert read - {key for key, has_effect in effects if has_effect} <= HEAD_NEUTRAL.keys()


@contract(ADAPTERS, slow=lambda name: True)
def test_every_key_of_an_adapter_changes_a_bit(name):
    unchanged = digest_of_model(ENCODER | {"adapter": {"name": name}})

    assert unchanged != REFUSED

    for key, value in ADAPTER_VALUES.items():
        if key.startswith(f"{name}."):
            options = {"name": name, key.partition(".")[2]: value}
            assert digest_of_model(ENCODER | {"adapter": options}) not in (unchanged, REFUSED), key
