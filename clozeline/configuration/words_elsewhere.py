"""What other programs call a key, an algorithm or a command, and what to write here.

People bring words from transformers, fairseq, axolotl or datatrove. A similar spelling misleads:
`epochs` is not `eps`. The words are in `words_elsewhere.yaml`, here and in the folders of
extensions.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.extension_list import list_extensions

_FILE: Final = Path(__file__).with_suffix(".yaml")


def translate_key(word: str, known: Collection[str], prefix: str = "") -> str | None:
    """Return the hint for a key of another program.

    None if it is unknown, or if the command has no such key.

    `known` are the dotted keys of the class of options that lacks the word, and `prefix` is written
    in front of them.
    """
    roots = {key.partition(".")[0] for key in known}

    def find_key(candidate: str) -> str | None:
        key = candidate.removeprefix(prefix)
        if key.partition(".")[0] in roots:
            return prefix + key
        last = candidate.rpartition(".")[2]
        return prefix + last if last in known else None

    return _translate(words_of("keys"), word, find_key)


def translate_value(key: str, value: object) -> str:
    """Return the hint for a value of another program, to be written behind a refusal; or ""."""
    note = words_of("values", key).get(str(value).lower())
    return f": {note}" if note else ""


def translate_algorithm(registry: str, word: str, known: Collection[str]) -> str | None:
    """Return the hint for an algorithm of another name.

    `registry` is the last word of its package.
    """
    return _translate(words_of("algorithms", registry), word, _member_of(known))


def translate_option(word: str, known: Collection[str]) -> str | None:
    """Return the hint for an option of another command; `known` are those of this one."""
    return _translate(words_of("options"), word, _member_of(known))


def translate_command(word: str, known: Collection[str]) -> str | None:
    """Return the hint for a command of another program."""
    return _translate(words_of("commands"), word, _member_of(known))


def _member_of(known: Collection[str]) -> Callable[[str], str | None]:
    return lambda candidate: candidate if candidate in known else None


def words_of(*kind: str) -> Mapping[str, Any]:
    """Return the words of a kind, such as `commands`, with those of extensions."""
    found: dict[str, Any] = {}
    for file in (_FILE, *(each.folder / _FILE.name for each in list_extensions())):
        with suppress(OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
            words = _read(file)
            for key in kind:
                words = words.get(key, {})
            found |= words  # a file that is missing, or holds anything else, gives no hint
    return found


@functools.cache
def _read(file: Path) -> Mapping[str, Any]:
    # libyaml, where PyYAML was built with it, takes a tenth of the time
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    words: Mapping[str, Any] = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
    return words


def _translate(
    words: Mapping[str, Any], word: str, find_known: Callable[[str], str | None]
) -> str | None:
    entry = words.get(word.lower().replace("-", "_"))
    if entry is None:
        return None
    if not entry["write"]:
        return str(entry["note"])
    found = next(filter(None, map(find_known, entry["write"])), None)
    if found is None:
        return None
    note = f" ({entry['note']})" if "note" in entry else ""
    return f"here it is '{found}'{note}"
