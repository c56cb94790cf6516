"""Read dictionaries in the format of MUSE: each line is a word and its translation."""

from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines
from clozeline.pipeline.ingest.formats.decompression import Damage
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.code_switching import WordSwitcher


def read_switcher(
    config: CodeSwitchConfig, limits: InputLimits, seed: int, stage: str
) -> WordSwitcher:
    """Return the word switcher of a stage, with the dictionaries that `code_switch` names."""
    key = f"{stage}.code_switch.dictionaries"
    return WordSwitcher(
        config, [read_dictionary(path, limits, key) for path in config.dictionaries], seed
    )


def read_dictionary(path: Path, limits: InputLimits, key: str) -> dict[str, list[str]]:
    """Return the translations of each word: `cat Katze`, or `cat<tab>wilde Katze`.

    The file may be compressed. `key` is the configuration key that names it.

    Raises:
        ConfigurationError: the file is missing or has no pair, or a line is damaged or not a pair.
    """
    translations: dict[str, list[str]] = {}
    if not path.is_file():
        raise ConfigurationError(f"{key}: {path}: no such file")

    lines = ByteLines(path, 0, path.stat().st_size, limits, resume=False)
    for number, (_, line) in enumerate(lines):
        if isinstance(line, Damage):
            found = line.reason
            text = ""
        else:
            text = line.decode("utf-8-sig", "replace").strip()
            found = "bad_utf8" if "\ufffd" in text else ""
        if text or found:
            word, _, other = text.partition("\t" if "\t" in text else " ")
            if found or not word.strip() or not other.strip():
                raise ConfigurationError(
                    f"{path}, line {number + 1}: expected a word and its translation, got "
                    f"{found or text!r}"
                )
            translations.setdefault(word.strip().lower(), []).append(other.strip())

    if not translations:
        raise ConfigurationError(f"{path}: expected lines of a word and its translation, got none")
    return translations
