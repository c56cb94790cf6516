from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.inputs import SourceFile
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.tasks.readers.glue import Glue
from clozeline.pipeline.tasks.readers.labelled import Labelled
from clozeline.pipeline.tasks.readers.trec import Trec
from clozeline.pipeline.tasks.splits import split_files


def files(*names: str, source: str = "default") -> list[SourceFile]:
    entry = InputEntry(path="in", source=source)
    return [SourceFile(f"{source}/{name}", Path("in") / name, 1, entry, "in") for name in names]


def names(found: list[SourceFile]) -> tuple[dict[str, str], list[str]]:
    splits, others = split_files(found, Glue)
    return {split: file.path.name for split, file in splits.items()}, [one.path.name for one in others]


@pytest.mark.parametrize(
    ("given", "splits", "others"),
    [
        (["train.tsv.zst", "dev.tsv"], {"dev": "dev.tsv", "train": "train.tsv.zst"}, []),
        (["train.jsonl", "val.jsonl", "test.jsonl"],
         {"dev": "val.jsonl", "test": "test.jsonl", "train": "train.jsonl"}, []),
        (["train-v1.1.json", "dev-v1.1.json.zst"], {"dev": "dev-v1.1.json.zst", "train": "train-v1.1.json"}, []),
        (["in_domain_train.tsv.gz", "in_domain_dev.tsv"],
         {"dev": "in_domain_dev.tsv", "train": "in_domain_train.tsv.gz"}, []),
        (["msr_paraphrase_train.txt"], {"train": "msr_paraphrase_train.txt"}, []),
        (["train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"],
         {"dev_matched": "dev_matched.tsv", "dev_mismatched": "dev_mismatched.tsv", "train": "train.tsv"}, []),
        (["train.tsv", "msr_paraphrase_train.txt", "dev_ids.tsv"], {"train": "train.tsv"},
         ["dev_ids.tsv", "msr_paraphrase_train.txt"]),
        (["train.tsv", "README.txt", "training.tsv", "undev.tsv"], {"train": "train.tsv"},
         ["undev.tsv", "README.txt", "training.tsv"]),
    ],
    ids=["plain", "other_names", "squad", "in_domain", "microsoft", "mnli", "mrpc_of_glue", "strangers"],
)  # fmt: skip
def test_splits_by_name(given: list[str], splits: dict[str, str], others: list[str]) -> None:
    assert names(files(*given)) == (splits, others)


def test_splits_that_are_folders_of_folders() -> None:
    """The first text stands for all; files beside the folders of a split, and other folders, are named."""
    reader = Labelled(Labelled.Options(label="folder"), Limits())
    given = files("README", "test/pos/0.txt", "test/neg/3.txt", "test/urls.txt", "train/pos/1.txt", "train/neg/2.txt",
                  "train/pos/notes.md", "imdb.vocab", "extra/pos/0.txt")  # fmt: skip
    splits, others = split_files(given, reader)
    assert {split: file.source for split, file in splits.items()} == {
        "test": "default/test/neg/3.txt", "train": "default/train/neg/2.txt",
    }  # fmt: skip
    assert sorted(file.source.removeprefix("default/") for file in others) == [
        "README", "extra/pos/0.txt", "imdb.vocab", "test/urls.txt", "train/pos/notes.md"
    ]  # fmt: skip
    splits, _ = split_files(files("pos/1.txt", "neg/2.txt", source="train"), reader)
    assert {split: file.source for split, file in splits.items()} == {"train": "train/neg/2.txt"}
    with pytest.raises(ConfigurationError, match=r"or name folders train, dev and test, with folders of \.txt files"):
        split_files(files("a/b.txt", "c.txt"), reader)


def test_tables_in_folders_of_folders_are_no_split() -> None:
    """The first of them would stand for all."""
    with pytest.raises(ConfigurationError, match="expected files named train"):
        split_files(files("train/a/1.txt", "train/a/2.txt"), Labelled(Labelled.Options(label="stars"), Limits()))


def test_splits_of_official_names() -> None:
    given = files("TREC_10.label", "train_5500.label", "train_1000.label")
    splits, others = split_files(given, Trec)
    assert {split: file.path.name for split, file in splits.items()} == {
        "test": "TREC_10.label", "train": "train_5500.label",
    }  # fmt: skip
    assert [file.path.name for file in others] == ["train_1000.label"]


def test_splits_of_folders_that_datasets_saved() -> None:
    """The first part stands for all of them, and descriptions are no rows."""
    saved = ("dataset_dict.json", "train/dataset_info.json", "train/state.json", "train/data-00000-of-00002.arrow",
             "train/data-00001-of-00002.arrow", "validation/data-00000-of-00001.arrow")  # fmt: skip
    splits, others = split_files(files(*saved), Labelled)
    assert {split: file.source for split, file in splits.items()} == {
        "train": "default/train/data-00000-of-00002.arrow", "dev": "default/validation/data-00000-of-00001.arrow",
    }  # fmt: skip
    assert others == ()
    parquet = files("text/train-00000-of-00002.parquet", "text/train-00001-of-00002.parquet",
                    "text/unsupervised-00000-of-00001.parquet")  # fmt: skip
    splits, others = split_files(parquet, Labelled)
    assert [file.path.name for file in splits.values()] == ["train-00000-of-00002.parquet"]
    assert [file.path.name for file in others] == ["unsupervised-00000-of-00001.parquet"]
    with pytest.raises(ConfigurationError, match="are both the split 'train'"):
        split_files(parquet, Glue)  # a reader of single files loses no part silently


def test_splits_by_label() -> None:
    given = [*files("a.tsv", source="train"), *files("train.tsv", source="dev")]
    assert names(given) == ({"dev": "train.tsv", "train": "a.tsv"}, [])


def test_further_sets_have_labels_of_their_own() -> None:
    given = [*files("a.tsv", source="test_de"), *files("b.tsv", source="dev_zh-hans"), *files("c.tsv", source="train")]
    assert names(given) == ({"dev_zh-hans": "b.tsv", "test_de": "a.tsv", "train": "c.tsv"}, [])
    assert names(files("a.tsv", source="train_pseudo")) == ({"train_pseudo": "a.tsv"}, [])
    for label in ("train_", "test_", "in_domain_dev", "test_de/../x"):
        with pytest.raises(ConfigurationError, match="expected the name of a split"):
            names(files("a.tsv", source=label))
    assert names(files("train.tsv", "test_de.tsv"))[1] == ["test_de.tsv"], "files have no such names"


def test_two_files_of_one_split() -> None:
    with pytest.raises(ConfigurationError, match=r"a_train\.tsv and in/b_train\.tsv are both the split 'train'"):
        split_files(files("a_train.tsv", "b_train.tsv"), Glue)
    with pytest.raises(ConfigurationError, match="both the split 'train'"):
        split_files([*files("train.tsv"), *files("x.tsv", source="train")], Glue)


def test_no_split_at_all() -> None:
    with pytest.raises(ConfigurationError, match=r"expected files named train, dev or test .*got in/a\.tsv"):
        split_files(files("a.tsv"), Glue)
    with pytest.raises(ConfigurationError, match=r"source: train\}\]' tasks\.carve='\{dev: 0\.2\}'"):
        split_files(files("reviews.csv"), Glue)
    with pytest.raises(ConfigurationError, match=r"expected the name of a split.*got 'trian'"):
        split_files(files("a.tsv", source="trian"), Glue)
