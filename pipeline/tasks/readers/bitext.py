"""Reader of parallel text, in two aligned files or two columns: translations and summaries."""

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Layout, Rejected, SourceTarget, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import align_lines, text_lines
from clozeline.pipeline.tasks.readers.text_to_text import Metric

_COLUMNS: Final = 2


class Bitext(TaskReader):
    """Pairs of line n of `train.en` and line n of `train.de`, or of one file with a tab between both texts.

    Rejected: `empty_text`, a side without text; `unaligned`, a line of the longer file; `fields`, a line of a table
    without exactly two fields.

    Example (source `en`, target `de`, prefix `translate English to German: `):
        `Hello!` in train.en and `Hallo!` in train.de
    """

    @config_class
    class Options:
        task: str = "bitext"
        """name of the task and of its folder"""
        source: str = "source"
        """extension of the source file: en, of train.en or train.en.gz; any other file is a table"""
        target: str = "target"
        """extension of the target file in the same folder"""
        prefix: str = ""
        """text before each source: `translate English to German: `"""
        suffix: str = ""
        """text after each source"""
        metrics: Annotated[list[Metric], Field(min_length=1)] = field(default_factory=lambda: ["bleu", "chrf"])
        """metrics of the task, main metric first: exact_match, bleu, chrf, rouge1, rouge2, rougeL, rougeLsum"""

    options: Options

    @property
    def facts(self) -> TaskFacts:
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def open(self, path: Path) -> TaskFile:
        """Open a source file with its target file, or a table of both."""
        if (target := self.second_file(path)) is not None:
            if not target.is_file():
                raise ConfigurationError(f"{path}: expected the file {target.name} with the targets in the same folder")
            return TaskFile(path, Layout("two files", files=(target,)))
        _, first = next(text_lines(path, self.limits), (0, ""))
        if not isinstance(first, str) or len(first.split("\t")) != _COLUMNS:
            raise ConfigurationError(
                f"{path}: expected a name with .{self.options.source} and a file with .{self.options.target} in the "
                f"same folder, or lines with one tab, got {str(first)[:80]!r}"
            )
        return TaskFile(path, Layout("table"))

    def read(self, file: TaskFile) -> Iterator[SourceTarget | Rejected]:
        sources = text_lines(file.path, self.limits)
        if not file.layout.files:
            for index, line in sources:
                yield line if isinstance(line, Rejected) else keep_texts(self._pair(line.split("\t"), index), line)
            return
        targets = text_lines(file.layout.files[0], self.limits)
        for index, pair in enumerate(align_lines(sources, targets)):
            yield pair if isinstance(pair, Rejected) else keep_texts(self._pair([*pair], index), pair)

    def _pair(self, texts: list[str], index: int) -> SourceTarget | Rejected:
        if len(texts) != _COLUMNS:
            return Rejected("fields", index)
        source, target = (text.strip() for text in texts)
        if not source or not target:
            return Rejected("empty_text", index)
        return SourceTarget(source, (target,), self.options.prefix, index, suffix=self.options.suffix)

    def second_file(self, path: Path) -> Path | None:
        """Return the target file; None for a table."""
        first, *endings = path.name.split(".")
        if self.options.source not in endings:
            return None
        renamed = [self.options.target if ending == self.options.source else ending for ending in endings]
        return path.with_name(".".join([first, *renamed]))
