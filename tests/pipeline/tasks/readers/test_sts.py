from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written


def benchmark(score: str, first: str = 'A "plane".', second: str = "It flies.", *more: str) -> str:
    return "\t".join(("main-captions", "MSRvid", "2012test", "0001", score, first, second, *more)) + "\n"


def test_the_benchmark_of_its_authors(tmp_path: Path) -> None:
    """The score is the fifth field; two more name the sources of some rows."""
    lines = [benchmark("5.000"), benchmark("3.8", "a", "b", "licence", "site"), benchmark("5.1"), benchmark("nan"),
             benchmark("1.0", " "), "a\tb\n"]  # fmt: skip
    items = items_of(reader_of("sts"), written(tmp_path, "".join(lines), "sts-train.csv"))
    assert items[:2] == [
        LabeledText(('A "plane".', "It flies."), None, 5.0, 0), LabeledText(("a", "b"), None, 3.8, 1)
    ]  # fmt: skip
    assert reasons(items) == {"bad_label": 2, "empty_text": 1, "fields": 1}


def test_the_subsets_of_a_year_are_one_list(tmp_path: Path) -> None:
    """Pairs without a number, of 2015 and 2016, are counted; a subset that is not named is not read."""
    written(tmp_path, "a\tb\nc\td\tsource\ne\tf\ng\n", "STS.input.MSRpar.txt")
    written(tmp_path, "4\n\n5.5\n1\n0\n", "STS.gs.MSRpar.txt")
    first = written(tmp_path, "h\ti\n", "STS.input.answers.txt")
    written(tmp_path, "2.25\n", "STS.gs.answers.txt")
    reader = reader_of("sts", task="sts12", subsets=["answers", "MSRpar"])
    items = items_of(reader, first)
    assert [item for item in items if isinstance(item, LabeledText)] == [
        LabeledText(("h", "i"), None, 2.25, 0), LabeledText(("a", "b"), None, 4.0, 1)
    ]  # fmt: skip
    assert reasons(items) == {"no_label": 1, "bad_label": 1, "fields": 1, "unaligned": 1}
    assert [path.name for path in reader.open(first).others] == [
        "STS.input.answers.txt", "STS.gs.answers.txt", "STS.input.MSRpar.txt", "STS.gs.MSRpar.txt"
    ]  # fmt: skip
    assert len(items_of(reader_of("sts"), first)) == 1
    assert reader.open(first).layout == "2 subsets, concatenated"
    written(tmp_path, "a\tb\n", "STS.input.MSRvid.txt")
    with pytest.raises(ConfigurationError, match=r"expected the file STS\.gs\.MSRvid\.txt"):
        reader_of("sts", subsets=["MSRvid"]).open(first)


def test_the_pairs_of_a_subset_belong_together(tmp_path: Path) -> None:
    for name, pairs in (("one", "a\tb\nc\td\n"), ("two", "e\tf\n")):
        first = written(tmp_path, pairs, f"STS.input.{name}.txt")
        written(tmp_path, "1\n" * pairs.count("\n"), f"STS.gs.{name}.txt")
    reader = reader_of("sts", subsets=["one", "two"], average="mean")
    assert [item.index for item in items_of(reader, first)] == [0, 0, 1]
    assert reader.facts.metrics == ("mean_spearman", "mean_pearson")


@pytest.mark.parametrize(
    "text", ["", "index\tgenre\tscore\n", "a\tb\tc\td\tscore\tf\tg\n"], ids=["empty", "few", "glue"]
)
def test_other_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected the name STS\.input\.NAME\.txt, or the fields of STS-B"):
        reader_of("sts").open(written(tmp_path, text))
