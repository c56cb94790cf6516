"""Resolve references in a configuration.

`${data.folder}` means another of its keys, `${oc.env:NAME}` a variable in a secret.

A file of somebody else could copy any variable of the environment into the files of a run. So a
variable is read only where the value is masked in all that is written, and no other key can refer
to such a value.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from clozeline.configuration.redaction import is_redacted, leaves

_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"oc\.env:\s*([A-Za-z_]\w*)\s*")
_KEYS: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_LONGEST_SHOWN: Final = 80
"""Characters of a value that a message shows."""


def find_wrong_reference(data: object) -> str | None:
    """Return what is wrong with the first reference that is not allowed.

    Also what to write; None if all are allowed.
    """
    for keys, value in leaves(data):
        if (
            isinstance(value, str)
            and "${" in value
            and (problem := _problem_of(data, keys, value)) is not None
        ):
            shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."
            return f"{'.'.join(keys)}: {shown}: {problem}"
    return None


def _problem_of(data: object, keys: Sequence[str], value: str) -> str | None:
    """Return what is wrong with the references of one value."""
    if "${" in _REFERENCE.sub("", value):
        return "expected ${KEY}, a key of this file, without another reference in it"
    for reference in _REFERENCE.findall(value):
        if (variable := _VARIABLE.fullmatch(reference)) is not None:
            if not is_redacted(keys):
                return (
                    f"the variable {variable[1]} would be written into the output: variables are "
                    "for secrets alone, such as store.fsspec.secret; write the value itself"
                )
        elif _KEYS.fullmatch(reference) is None:
            return "expected ${KEY}, a key of this file, or ${oc.env:NAME} in a secret"
        else:
            target = reference.split(".")
            if target[0] in os.environ and not (isinstance(data, Mapping) and target[0] in data):
                return (
                    "expected a key of this file: variables of the shell are not read here; write "
                    "the value itself, for a folder its path, where ~ is your home"
                )
            if _leads_to_secret(data, target):
                return f"{reference} is or holds a secret, which no other key may repeat"

    return None


def _leads_to_secret(data: object, target: Sequence[str]) -> bool:
    """Return whether keys lead to a value that is masked, or to one with such values in it."""
    if is_redacted(target):
        return True
    for key in target:
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, list) and key.isdecimal() and int(key) < len(data):
            data = data[int(key)]
        else:
            return False
    return any(is_redacted((*target, *below)) for below, _ in leaves(data))
