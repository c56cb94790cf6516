"""Check the messages of commits: what changed in the imperative, then why.

    python -m tests.history    # the commits since the one that added this file

A subject has at most 72 characters, begins with a verb in the imperative ("Add", not "Added"), and
ends without a period. A blank line and at least one sentence on the reason follow it. Where a
commit raises a figure of `tests/weight.json`, its body says how many tokens buy what. Merges are not
checked. Of a shallow clone, the commits that are there are checked.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.registries import ROOT
from tests.touched import read_git

LONGEST_SUBJECT: Final = 72
"""Characters: what `git log --oneline` shows on a narrow screen."""
NO_IMPERATIVE: Final = re.compile(
    r"(?!(?:Embed|Feed|Need|Proceed|Seed|Speed|Bring|Ping|String|Alias|Bias)\b)"
    r"[A-Za-z-]+(?:ed|ing|[^su]s)\b"
)
"""First words such as Added, Adding and Adds; but not Embed and Bring."""

WEIGHT: Final = "tests/weight.json"
CHANGED_FIGURE: Final = re.compile(r'^([-+]) "(\w+)": (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, and its message with subject and body."""

    hash: str
    message: str


def find_mistakes(message: str) -> Iterator[str]:
    """Yield what is wrong with the message of a commit."""
    subject, _, rest = message.strip().partition("\n")
    if len(subject) > LONGEST_SUBJECT:
        yield f"the subject has {len(subject)} characters, expected at most {LONGEST_SUBJECT}"
    if not subject[:1].isupper():
        yield "the subject begins with no capital letter"
    if NO_IMPERATIVE.match(subject):
        yield f"the subject begins with {subject.split()[0]}, expected an imperative such as Add"
    if subject.endswith("."):
        yield "the subject ends with a period"

    # Trailers such as `Co-authored-by: …` give no reason.
    lines = rest.strip().splitlines()
    if rest and not rest.startswith("\n"):
        yield "no blank line follows the subject"
    if not any(not re.match(r"[A-Z][\w-]+: ", line) for line in lines):
        yield "the body is empty, expected why the change was made"


def list_commits() -> list[Commit]:
    """Return the commits since this file was added, oldest first; none outside of a repository."""
    path = "tests/history.py"
    added = read_git(ROOT, "log", "--diff-filter=A", "--format=%H", "--", path).split()
    if not added:
        return []
    log = read_git(
        ROOT, "log", "--no-merges", "--reverse", "--format=%H%n%B%x00", f"{added[-1]}..HEAD"
    )
    entries = (entry.strip().partition("\n") for entry in log.split("\0"))
    return [Commit(name, message) for name, _, message in entries if name]


def list_heavier() -> set[str]:
    """Return the hashes of the commits that raise a figure of the weight of the code."""
    log = read_git(ROOT, "log", "--no-merges", "--format=%x00%H", "-p", "-U0", "--", WEIGHT)
    heavier = set()
    for entry in log.split("\0")[1:]:
        figures: dict[str, int] = {}
        for sign, folder, figure in CHANGED_FIGURE.findall(entry):
            change = int(figure) if sign == "+" else -int(figure)
            figures[folder] = figures.get(folder, 0) + change
        if "new file mode" not in entry and any(change > 0 for change in figures.values()):
            heavier.add(entry.split()[0])
    return heavier


def main() -> int:
    """Print each mistake with the commit that has it; return 1 if there is one."""
    failed = False
    heavier = list_heavier()

    for commit in list_commits():
        mistakes = [*find_mistakes(commit.message)]
        if commit.hash in heavier and "tokens" not in commit.message.partition("\n")[2]:
            mistakes.append(f"it raises {WEIGHT}, expected a body that says what the tokens buy")
        for mistake in mistakes:
            subject = commit.message.splitlines()[0]
            print(f'commit {commit.hash[:9]} "{subject}": {mistake}', file=sys.stderr)
            failed = True

    if failed:
        print("Mend a message: git rebase --interactive COMMIT~1, then reword", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
