"""Hold the weight of the code, in tokens by top folder, to the figures of `tests/weight.json`.

    python -m tests.weight

A folder above its figure fails, until a commit raises the figure and says in its body how many
tokens it buys what with, and what left for it. A folder below lowers its figure: commit the file.

Comments, docstrings and layout weigh nothing; an f-string weighs as much as the code in it; a text
weighs a token more for each 60 characters. Every version of Python counts the same.
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from typing import Final

from tests.registries import ROOT
from tests.touched import read_git

MOST_TOKENS: Final = 4_000
"""Tokens of code in a file: about 600 lines, which a reader takes in at once."""
FIGURES: Final = ROOT / "tests" / "weight.json"
LAYOUT: Final = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    }
)
# Since Python 3.12 the tokenizer takes f-strings apart; they are counted from the tree instead.
STARTS: Final = getattr(tokenize, "FSTRING_START", None)
ENDS: Final = getattr(tokenize, "FSTRING_END", None)


def _visible_tokens(text: str, documented: set[int]) -> int:
    """Return the number of tokens outside of f-strings, each of which is one."""
    depth = 0
    total = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += (token.type == STARTS) - (token.type == ENDS)
        total += not depth and token.type not in LAYOUT and token.start[0] not in documented
    return total


def count_tokens(text: str) -> int:
    """Return the weight of the source of a module."""
    documented: set[int] = set()
    nodes = [*ast.walk(ast.parse(text))]
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                documented.update(range(node.lineno, (node.end_lineno or 0) + 1))

    total = _visible_tokens(text, documented)
    for node in nodes:
        match node:
            case ast.FormattedValue(value=value):
                total += 1 + _visible_tokens(ast.unparse(value), set())
            case ast.JoinedStr(values=values):
                # Python 3.12.1 adds empty texts to formats such as {value:{shown}}
                total += sum(getattr(value, "value", None) != "" for value in values)
            case ast.Constant(value=str(value), lineno=line) if line not in documented:
                total += len(value) // 60
    return total


def weigh_files() -> dict[str, int]:
    """Return the weight of each file, also of new ones that git does not ignore."""
    listed = read_git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*/*.py")
    paths = [path for name in listed.splitlines() if (path := ROOT / name).is_file()]
    return {
        path.relative_to(ROOT).as_posix(): count_tokens(path.read_text(encoding="utf-8"))
        for path in paths
    }


def main() -> int:
    """Compare with the figures, and lower them; return 1 if a folder or a file weighs too much."""
    files = weigh_files()
    weights: Counter[str] = Counter()
    for name, weight in files.items():
        weights[name.split("/")[0]] += weight
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    lower = {folder: min(weight, figures.get(folder, 0)) for folder, weight in weights.items()}
    if lower != figures:
        FIGURES.write_text(json.dumps(lower, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{FIGURES.name}: commit the lower figures")

    mistakes = [
        f"{folder}/ weighs {weight:,} tokens, {weight - lower[folder]:,} more than {FIGURES.name} "
        "allows: make it lighter, or raise the figure and say in the body of the commit how many "
        "tokens buy what, and what left for them"
        for folder, weight in weights.items()
        if weight > lower[folder]
    ]
    mistakes += [
        f"{name} weighs {weight:,} tokens, expected at most {MOST_TOKENS:,}: split it by idea"
        for name, weight in files.items()
        if weight > MOST_TOKENS
    ]
    print(*mistakes, sep="\n", file=sys.stderr)
    return int(bool(mistakes))


if __name__ == "__main__":
    sys.exit(main())
