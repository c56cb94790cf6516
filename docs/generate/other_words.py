"""Write docs/words.md: what other programs call a key, an algorithm or a command."""

from collections.abc import Mapping
from typing import Any, Final

from clozeline.configuration.words_elsewhere import _FILE, words_of

_HEAD: Final = """# Your word, our key

What other programs call a key, and what to write here. Each command answers these words, too:
`here it is 'steps'`. A command takes the first key of a row that it has. `make docs` writes this
page from the table that the program reads."""


def words_page() -> str:
    """Return the table of words, by the program that people bring them from."""
    keys = words_of("keys")
    parts = [_HEAD]
    for line in _FILE.read_text(encoding="utf-8").partition("\nalgorithms:")[0].splitlines()[3:]:
        if line.startswith("  # "):
            title = line.removeprefix("  # ")
            parts.append(_section(title))
        else:
            word = line.partition(":")[0].strip()
            parts.append(_row(word, keys[word]))
    for kind, words in {**words_of("algorithms"), "commands": words_of("commands")}.items():
        parts.append(_section(kind))
        parts += [_row(word, entry) for word, entry in words.items()]
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str) -> str:
    head = "| your word | here | note |\n|---|---|---|"
    return f"\n## {title[0].upper()}{title[1:]}\n\n{head}"


def _row(word: str, entry: Mapping[str, Any]) -> str:
    written = ", ".join(f"`{each}`" for each in entry["write"])
    note = str(entry.get("note", "")).replace("|", "\\|")
    return f"| `{word}` | {written} | {note} |"
