"""Every key of an objective, at another value, changes examples or what a set declares, is refused,
or has a reason.

Values follow from the types: the other words of a list, the other truth value, half of a number.
"""

import hashlib
import json
from dataclasses import asdict
from typing import Literal, get_args, get_origin

from clozeline.configuration.described_keys import describe
from clozeline.configuration.overrides import alternatives, below
from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.tools.start.contracts.objectives import prepare
from tests.contracts import contract
from tests.keys.effects import REFUSED, with_keys
from tests.keys.objective_cases import ALWAYS, ALWAYS_REFUSED, FURTHER, NEUTRAL, VALUES, VARIED
from tests.keys.schema import keys_of


def type_of(schema, key):
    for part in key.split("."):
        schema = None if schema is None else below(schema, part)
    return schema


def other_values(kind, default):
    """Yield values of a type that are not the default."""
    for alternative in alternatives(kind):
        if get_origin(alternative) is Literal:
            yield from (word for word in get_args(alternative) if word != default)
        elif alternative is bool:
            yield not default
        elif alternative is float and isinstance(default, float):
            yield default / 2 or 0.5
        elif alternative is int and isinstance(default, int):
            yield max(1, default // 2)


def values_of(name):
    """Return the values of each key of an objective.

    None where the type and the table give none.
    """
    schema = OBJECTIVES.load_class(name).Options
    defaults = {key: text for key, _, text, _ in describe(schema)}
    values = {}
    for key in keys_of(schema):
        default = json.loads(defaults[key]) if defaults[key] not in ("", "required") else None
        given = [value for value in VALUES.get(key, ()) if value != default]
        values[key] = given or [*other_values(type_of(schema, key), default)]

    return values


def digest_of(entry):
    """Return the digest of examples and of what their set declares, or `REFUSED`."""
    try:
        case = prepare(entry)
        examples, skips = case.corrupt()
    except (ConfigurationError, ValueError):
        return REFUSED

    objective = case.objective
    declared = [
        objective.form.model_dump(),
        objective.architecture,
        objective.heads,
        asdict(objective.grouping),
    ]

    digest = hashlib.sha256(json.dumps(declared, default=str).encode() + skips.tobytes())
    for column, ragged in sorted(examples.columns.items()):
        digest.update(column.encode() + ragged.values.tobytes() + ragged.offsets.tobytes())
    return digest.hexdigest()


def bases_of(name, values):
    always = {"name": name, **ALWAYS.get(name, {})}
    varied = [{**always, key: value} for key in VARIED for value in values.get(key, ())]
    varied += [{**always, **options} for options in FURTHER.get(name, ())]
    return [base for base in [always, *varied] if digest_of(base) != REFUSED]


@contract(OBJECTIVES)
def test_every_key_has_a_value_or_a_reason(name):
    assert {key for key, values in values_of(name).items() if not values} <= NEUTRAL.keys()


def test_every_reason_is_of_a_key():
    assert {*VALUES, *NEUTRAL} <= {
        key for name in OBJECTIVES.available() for key in values_of(name)
    }


@contract(OBJECTIVES, slow=lambda name: name != "masked_encoder_decoder")
def test_every_key_of_an_objective_changes_a_bit_or_is_refused(name):
    values = values_of(name)
    seen = set()

    for base in bases_of(name, values):
        unchanged = digest_of(base)

        for key in values.keys() - NEUTRAL.keys():
            for value in values[key]:
                found = digest_of(with_keys(base, {key: value}))
                assert found != unchanged or base.get(key) == value, (
                    f"{key}={value} changes nothing in {base}"
                )
                seen |= {key} if found not in (unchanged, REFUSED) else set()

    refused = {key for key in values if f"{name}.{key}" in ALWAYS_REFUSED}

    assert values.keys() - NEUTRAL.keys() - seen == refused, "keys that every base refuses"
