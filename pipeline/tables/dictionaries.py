"""Read dictionaries in the format of MUSE: each line is a word and its translation."""

from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables.lines import read_text_lines
from clozeline.pipeline.tables.rejected import Rejected
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
    if not path.is_file():
        raise ConfigurationError(f"{key}: {path}: no such file; name one that exists")

    translations: dict[str, list[str]] = {}
    for index, line in read_text_lines(path, limits):
        text = line.explanation if isinstance(line, Rejected) else line.strip()
        if not text:
            continue
        word, _, other = text.partition("\t" if "\t" in text else " ")
        if isinstance(line, Rejected) or not other:
            raise ConfigurationError(
                f"{path}, line {index + 1}: expected a word and its translation, got {text!r}"
            )
        translations.setdefault(word.strip().lower(), []).append(other.strip())

    if not translations:
        raise ConfigurationError(f"{path}: expected lines of a word and its translation, got none")
    return translations
