"""Reader of semantic textual similarity: sentence pairs with a score from 0 to 5 (SemEval 2012 to 2017)."""

from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Literal

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, Layout, Rejected, TaskFacts, TaskFile, TaskReader, keep_texts
from clozeline.pipeline.tasks.readers._text_lines import align_lines, parse_score, text_lines

_BENCHMARK: Final = 7
"""Fields of STS-B: genre, file, year, index, score, two sentences; some rows add their sources."""
_INPUT: Final = "STS.input."
_GOLD: Final = "STS.gs."
_HIGHEST: Final = 5.0


class Sts(TaskReader):
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

    @property
    def facts(self) -> TaskFacts:
        mean = self.options.average == "mean"
        metrics = ("mean_spearman", "mean_pearson") if mean else ("spearman", "pearson")
        return TaskFacts(name=self.options.task, head="regression", metrics=metrics, texts=2, low=0.0, high=_HIGHEST)

    def open(self, path: Path) -> TaskFile:
        """Open a file of STS-B, or one of a year with the other subsets."""
        if path.name.startswith(_INPUT):
            subsets = self._subsets(path)
            for file in (*subsets, *map(_gold_of, subsets)):
                if not file.is_file():
                    raise ConfigurationError(f"{path}: expected the file {file.name} in the same folder")
            return TaskFile(path, Layout(f"{len(subsets)} subsets, concatenated", files=subsets))
        _, first = next(text_lines(path, self.limits), (0, ""))
        fields = first.split("\t") if isinstance(first, str) else []
        if len(fields) < _BENCHMARK or parse_score(fields[4], 0.0, _HIGHEST) is None:
            raise ConfigurationError(
                f"{path}: expected the name {_INPUT}NAME.txt, or the fields of STS-B between tabs (genre, file, year, "
                f"index, score, two sentences; GLUE's table with a header is for the reader glue), got "
                f"{str(first)[:80]!r}"
            )
        return TaskFile(path, Layout("STS-B"))

    def companions(self, path: Path) -> tuple[Path, ...]:
        if not path.name.startswith(_INPUT):
            return ()
        subsets = self._subsets(path)
        return tuple(file for file in (*subsets, *map(_gold_of, subsets)) if file != path and file.is_file())

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        if not file.layout.files:
            for index, line in text_lines(file.path, self.limits):
                if isinstance(line, Rejected):
                    yield line
                elif len(fields := line.split("\t")) < _BENCHMARK:
                    yield Rejected("fields", index, texts=(line,))
                else:
                    yield keep_texts(self._pair(fields[5:7], fields[4], index), fields[5:7])
            return
        index = 0
        for number, subset in enumerate(file.layout.files):
            for pair in align_lines(text_lines(subset, self.limits), text_lines(_gold_of(subset), self.limits)):
                position = number if self.options.average == "mean" else index
                if isinstance(pair, Rejected):
                    yield replace(pair, index=position)
                elif len(fields := pair[0].split("\t")) < 2:
                    yield Rejected("fields", position, texts=(pair[0],))
                else:
                    yield keep_texts(self._pair(fields[:2], pair[1], position), fields[:2])
                index += 1

    def _pair(self, texts: list[str], score: str, index: int) -> LabeledText | Rejected:
        first, second = (text.strip() for text in texts)
        if not first or not second:
            return Rejected("empty_text", index)
        if not score.strip():
            return Rejected("no_label", index)
        number = parse_score(score, 0.0, _HIGHEST)
        if number is None:
            detail = f"the score is {score.strip()!r}, expected a number from 0 to {_HIGHEST:g}"
            return Rejected("bad_label", index, detail)
        return LabeledText((first, second), None, number, index)

    def _subsets(self, path: Path) -> tuple[Path, ...]:
        if not self.options.subsets:
            return (path,)
        return tuple(path.with_name(f"{_INPUT}{name}.txt") for name in self.options.subsets)


def _gold_of(path: Path) -> Path:
    return path.with_name(_GOLD + path.name.removeprefix(_INPUT))
