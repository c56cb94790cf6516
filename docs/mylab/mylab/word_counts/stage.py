"""Count the words of the documents, one file for each part."""

import json
from collections import Counter
from dataclasses import dataclass

from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.rewritten_documents import open_documents
from clozeline.pipeline.execution.stages import Pass, Stage, Unit
from clozeline.pipeline.ingest.documents.files import read_documents


@dataclass(frozen=True)
class CountWords(Unit):
    """Count the words of one part."""

    part: str
    least_length: int

    def run(self, inputs, output):
        counts = Counter()
        documents = 0
        for document in read_documents(open_documents(inputs, self.part)):
            documents += 1
            counts.update(w for w in document.text.split() if len(w) >= self.least_length)
        with output.file(f"words/{self.part}.json") as path:
            path.write_text(json.dumps(dict(counts.most_common())), encoding="utf-8")
        return {"documents_in": documents, "words": counts.total()}


class WordCountsStage(Stage):
    """Counts words; no later stage reads its files."""

    name = "word_counts"
    after = ("dedup",)
    equations = ()  # it writes no documents

    def passes(self):
        length = self.config.least_length
        yield Pass("main", {part: CountWords(part, length) for part in self.plan.names})

    def row(self, counts):
        return StageRow(f"{counts['documents_in']:,} documents", f"{counts['words']:,} words")
