"""A folder of small files that grows and changes, with copies and near-copies among its files."""

import csv
import io
import json
import os
from pathlib import Path

from tests.pipeline.miniature import text

KINDS = (".jsonl", ".csv", ".txt")
LICENSES = ("by", "by-sa", "cc0")


class GrowingCorpus:
    """Files of three formats, each changed by draws of one generator.

    Names are never used twice, so that no file takes the place of another.
    """

    def __init__(self, folder, random):
        folder.mkdir()
        self.folder = folder
        self.random = random
        self.named = 0
        for kind in [".jsonl"] * 7 + [".csv"] * 3 + [".txt"] * 2:
            self.add(kind)

    def inputs(self):
        """Return the entries of `input` in a recipe."""
        return [
            {"path": str(self.folder / "*.jsonl")},
            {"path": str(self.folder / "*.csv"), "source": "tables"},
            {"path": str(self.folder / "*.txt"), "source": "books"},
        ]

    def read_all(self):
        """Return the bytes of each file by its name."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    def contents(self):
        """Return what identifies each file: its bytes, and the time of its last change."""
        return {
            name: (data, (self.folder / name).stat().st_mtime_ns)
            for name, data in self.read_all().items()
        }

    def add(self, kind=None):
        """Write a file of about 20 documents."""
        kind = kind or self.random.choice(KINDS[:2])
        count = self.random.randint(12, 26)
        if kind == ".txt":
            count = 3
        return self._write(self._new_name(kind), [self._document() for _ in range(count)])

    def edit(self):
        """Replace one document of a file."""
        name = self._any_name()
        documents = self._read(name)
        documents[self.random.randrange(len(documents))] = self._document()
        return self._write(name, documents)

    def append(self):
        """Add documents to the end of a file."""
        name = self._any_name()
        more = [self._document() for _ in range(self.random.randint(1, 6))]
        return self._write(name, self._read(name) + more)

    def truncate(self):
        """Keep the first documents of a file."""
        name = self._any_name()
        documents = self._read(name)
        return self._write(name, documents[: self.random.randint(1, len(documents))])

    def remove(self):
        """Remove a file that is not the last one of its format."""
        name = self.random.choice(self._removable())
        (self.folder / name).unlink()
        return name

    def rename(self):
        """Give a file a new name, which changes the uids of its documents."""
        name = self._any_name()
        new = self._new_name(Path(name).suffix)
        (self.folder / name).rename(self.folder / new)
        return f"{name} to {new}"

    def touch(self):
        """Change the time of a file, not its content."""
        name = self._any_name()
        os.utime(self.folder / name, (1, 1 + self.random.random()))
        return name

    def _removable(self):
        names = sorted(path.name for path in self.folder.iterdir())
        kinds = [Path(name).suffix for name in names]
        return [name for name, kind in zip(names, kinds, strict=True) if kinds.count(kind) > 1]

    def _any_name(self):
        return self.random.choice(sorted(path.name for path in self.folder.iterdir()))

    def _new_name(self, kind):
        self.named += 1
        # a new file may be the first, the last or in the middle of all
        return f"{self.random.choice('abcdefgh')}{self.named:03d}{kind}"

    def _document(self):
        """Return a document: new, one of thirty that come again, or such a one with a change."""
        luck = self.random.random()
        numbers = range(30) if luck < 0.25 else range(100, 100_000)
        number = self.random.choice(numbers)
        found = text(number, 3 + number % 4)
        if luck < 0.1:
            return found.replace(" ", " indeed ", 1)
        return found

    def _read(self, name):
        body = (self.folder / name).read_text()
        if name.endswith(".jsonl"):
            return [json.loads(line)["text"] for line in body.splitlines()]
        if name.endswith(".csv"):
            return [row["text"] for row in csv.DictReader(io.StringIO(body, newline=""))]
        return body.split("\n\n\n")

    def _write(self, name, documents):
        rows = [
            {"text": document, "license": LICENSES[len(document) % 3]} for document in documents
        ]
        if name.endswith(".jsonl"):
            body = "".join(json.dumps(row) + "\n" for row in rows)
        elif name.endswith(".csv"):
            table = io.StringIO(newline="")
            writer = csv.DictWriter(table, ["text", "license"])
            writer.writeheader()
            writer.writerows(rows)
            body = table.getvalue()
        else:
            body = "\n\n\n".join(documents)
        (self.folder / name).write_text(body, newline="")
        return name
