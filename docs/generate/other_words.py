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
    sections: dict[str, dict[str, Any]] = {}
    for line in _FILE.read_text(encoding="utf-8").partition("\nalgorithms:")[0].splitlines()[3:]:
        if line.startswith("  # "):
            words = sections.setdefault(line.removeprefix("  # "), {})
        else:
            word = line.partition(":")[0].strip()
            words[word] = keys[word]
    sections |= {**words_of("algorithms"), "commands": words_of("commands")}
    return "\n".join([_HEAD, *(_section(*section) for section in sections.items())]) + "\n"


def _section(title: str, words: Mapping[str, Any]) -> str:
    """Return a table; words with the same answer share a row."""
    rows: dict[str, list[str]] = {}
    for word, entry in words.items():
        written = ", ".join(f"`{each}`" for each in entry["write"])
        note = str(entry.get("note", "")).replace("|", "\\|")
        rows.setdefault(f"{written} | {note}", []).append(f"`{word}`")
    lines = [f"| {', '.join(names)} | {answer} |" for answer, names in rows.items()]
    head = f"\n## {title[0].upper()}{title[1:]}\n\n| your word | here | note |\n|---|---|---|"
    return "\n".join([head, *lines])
