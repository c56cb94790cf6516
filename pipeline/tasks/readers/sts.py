"""Reader of semantic textual similarity: sentence pairs with a score from 0 to 5 (SemEval 2012 to 2017)."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, Row, TaskFile
from clozeline.pipeline.tasks.readers._column_files import open_lines
from clozeline.pipeline.tasks.readers._labels import number_of
from clozeline.pipeline.tasks.readers._text_lines import align_lines, text_lines
from clozeline.pipeline.tasks.readers.labelled import Labelled, OfficialLayout

_BENCHMARK: Final = 7
"""Fields of STS-B: genre, file, year, index, score, two sentences; some rows add their sources."""
_INPUT: Final = "STS.input."
_GOLD: Final = "STS.gs."


class Sts(OfficialLayout):
    """The authors' files of STS-B and of STS 2012 to 2016.

    STS-B (`sts-train.csv`) has at least seven tab-separated fields without header; the fifth is the score. A year has,
    for each subset, `STS.input.NAME.txt` with sentence pairs and `STS.gs.NAME.txt` with scores. The `subsets` are
    concatenated: a correlation over all pairs is what papers call "all". With `average: mean` the metrics are means
    over subsets. Quotes are ordinary characters.

    Rejected: `fields`, a line with too few fields; `empty_text`; `bad_label`, a score outside 0 to 5; `no_label`, no
    score, as in most pairs of 2015 and 2016; `unaligned`, a line of the longer file.

    Example:
        `main-captions<tab>MSRvid<tab>2012test<tab>0001<tab>5.000<tab>A plane takes off.<tab>A plane is taking off.`
    """

    @config_class
    class Options:
        task: str = "sts"
        """name of the task and of its folder"""
        subsets: list[str] = field(default_factory=list)
        """subsets of a year, in the folder of the input file: [MSRpar, MSRvid]; empty: only the input file"""
        average: Literal["all", "mean"] = "all"
        """all: correlations over the pairs of all subsets; mean: the mean of the correlations of the subsets"""

    options: Options

    @cached_property
    def spec(self) -> Labelled.Options:
        return Labelled.Options(
            task=self.options.task, text=["first"], text_pair=["second"], score="score", range=[0.0, 5.0]
        )

    @property
    def metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        """Correlations over all pairs, or their mean over the subsets."""
        return ("mean_spearman", "mean_pearson") if self.options.average == "mean" else ("spearman", "pearson")

    def open(self, path: Path) -> TaskFile:
        """Open a file of STS-B, or one of a year with the other subsets."""
        if not path.name.startswith(_INPUT):
            expected = (
                f"the name {_INPUT}NAME.txt, or the fields of STS-B between tabs (genre, file, year, index, score, two "
                "sentences; GLUE's table with a header is for the reader glue)"
            )
            file = open_lines(path, self.limits, "STS-B", expected, _benchmark_pair)
            _, first = next(file.rows())
            if isinstance(first, Rejected) or number_of(first["score"]) is None:
                raise ConfigurationError(f"{path}: line 1: expected {expected}, got no score")
            return file
        files = self._subsets(path)
        if missing := [file.name for pair in files for file in pair if not file.is_file()]:
            raise ConfigurationError(f"{path}: expected the file {missing[0]} in the same folder")
        rows, others = partial(self._rows_of_subsets, files), tuple(file for pair in files for file in pair)
        return TaskFile(path, f"{len(files)} subsets, concatenated", rows, others=others)

    def _rows_of_subsets(self, files: Sequence[tuple[Path, Path]]) -> Iterator[tuple[int, Row | Rejected]]:
        line = 0
        for number, (subset, gold) in enumerate(files):
            for pair in align_lines(text_lines(subset, self.limits), text_lines(gold, self.limits)):
                # metrics are means over rows of one index
                index = number if self.options.average == "mean" else line
                if isinstance(pair, Rejected):
                    yield index, replace(pair, index=index)
                elif len(fields := pair[0].split("\t")) < 2:
                    yield index, Rejected("fields", index, texts=(pair[0],))
                else:
                    yield index, _pair(fields[0], fields[1], pair[1])
                line += 1

    def _subsets(self, path: Path) -> list[tuple[Path, Path]]:
        """Return the files of pairs and of scores of each subset."""
        names = self.options.subsets or [path.name.removeprefix(_INPUT).removesuffix(".txt")]
        return [(path.with_name(f"{_INPUT}{name}.txt"), path.with_name(f"{_GOLD}{name}.txt")) for name in names]


def _benchmark_pair(line: str) -> Row | None:
    fields = line.split("\t")
    return _pair(fields[5], fields[6], fields[4]) if len(fields) >= _BENCHMARK else None


def _pair(first: str, second: str, score: str) -> Row:
    return {"first": first.strip(), "second": second.strip(), "score": score.strip()}
