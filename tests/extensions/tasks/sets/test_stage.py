import json
import re
import shutil
from collections import Counter
from itertools import pairwise

import pytest

from clozeline.errors import IntegrityError
from clozeline.extensions.tasks.sets.stage import TasksStage
from clozeline.pipeline.execution.arguments import Describer
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import add_counts
from clozeline.pipeline.recipe import load_recipe
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.run_counts import check_run
from tests.pipeline.task_files import (
    labeled_row,
    make_labeled_sets,
    make_sets,
    open_split,
    sentences,
    texts_of,
    write_recipe,
    write_task,
    write_vocabulary,
)


def write_files(folder, **counts):
    files = write_task(folder / "files", **counts)
    given = [
        f"input={files}",
        f"tokenizer.path={write_vocabulary(folder / 'words')}",
        f"output={folder}/out",
    ]

    return files, ["--config", str(write_recipe(folder)), *given]


def counts_of(folder):
    """Return the counts by split, and their sum."""
    path = folder / "out/tasks/report.json"
    splits = json.loads(path.read_text())["counts"]["splits"]
    total = {}
    for part in splits.values():
        add_counts(total, part)
    return splits, total


def test_one_set_for_each_split_with_labels(tmp_path, caplog):
    """Its manifest says where the rows come from; files that are no split are named."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/notes.txt").write_text("of the authors")
    sets = make_sets(
        tmp_path, f"input={{path: {tmp_path}/files, language: en}}", "tasks.max_length=16"
    )
    rows = sentences(81)
    for split, part in (("train", rows[:60]), ("dev", rows[60:])):
        expected = {}
        for text, label in part:
            expected.setdefault(text, []).append(label)
        found = texts_of(open_split(sets, split))
        assert {text: sorted(labels) for text, labels in found.items()} == expected
        assert validate(sets / split).name == f"sst2/{split}"

    assert "test.tsv has no labels (official test)" in caplog.text
    assert (
        "files that are not a split by their names are not read: default/notes.txt" in caplog.text
    )

    _, total = counts_of(tmp_path)

    assert (total["rows_in"], total["examples"], total["refused"]) == (82, 81, {"no_label": 1})

    manifest = open_split(sets, "train").manifest

    assert {
        name: manifest.config[name] for name in ("layout", "source", "examples_by_label", "rows_in")
    } == {
        "layout": "official",
        "source": "default/train.tsv",
        "examples_by_label": {"0": 30, "1": 30},
        "rows_in": 60,
    }
    assert manifest.objective.options["max_length"] == 16
    assert manifest.totals.tokens_by_language == {"en": manifest.totals.tokens}


def test_the_stage_alone_makes_the_tokenizer_it_needs(tmp_path):
    """`clozeline tasks` is one command: a published tokenizer waits for no other stage."""
    _, words = write_files(tmp_path)

    assert run_stage("tasks", words) == 0
    assert len(open_split(tmp_path / "out/tasks/sst2", "train")) == 60

    record = (tmp_path / "out/tokenizer/records/main/000000.json").stat().st_mtime_ns

    assert run_stage("tasks", [*words, "tasks.max_length=12"]) == 0
    assert (tmp_path / "out/tokenizer/records/main/000000.json").stat().st_mtime_ns == record


def test_a_second_run_makes_what_changed(tmp_path, capfd):
    """The set of a changed file. A lost file must not cost its set, and is named."""
    files, words = write_files(tmp_path)
    sets = tmp_path / "out/tasks/sst2"

    assert main(words) == 0

    dev = files / "dev.tsv"
    dev.write_text(dev.read_text().replace("bad\t0", "bad\t1"))

    assert main(words) == 0
    assert open_split(sets, "dev").manifest.config["examples_by_label"] == {"1": 21}

    dev.unlink()
    capfd.readouterr()

    assert main(words) == 64

    error = capfd.readouterr().err

    assert f"no file of input={files} is the split 'dev'" in error
    assert "tokenizer" not in error
    assert open_split(sets, "dev").manifest.totals.samples == 21

    shutil.rmtree(sets / "dev")

    assert main(words) == 0
    assert [path.name for path in sets.iterdir()] == ["train"]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (
            {"train": "sentence\tlabel\na\t7\n"},
            [],
            "none of its rows is an example: 1 bad_label; line 2: the column label holds '7', the "
            "classes are 0, 1",
        ),
        ({"train": None, "dev": None}, [], "no file of the input has labels"),
        (
            {},
            ["tasks.reader={name: text_to_text}"],
            "the task is for the head lm, but bert is a template for an encoder",
        ),
        ({}, ["tasks.split_off={dev: 0.5}"], "expected a file of train and none of dev"),
        ({}, ["tasks.split_off={a: 0.5, b: 0.5}"], "shares below 1 in all"),
    ],
)
def test_mistakes(tmp_path, capfd, texts, options, message):
    files, words = write_files(tmp_path)
    with (tmp_path / "words/vocab.txt").open("a") as file:
        file.write("[EOS]\n")
    for name, text in texts.items():
        if text is None:
            (files / f"{name}.tsv").unlink()
        else:
            (files / f"{name}.tsv").write_text(text)

    assert main([*words, *options]) == 64

    error = capfd.readouterr().err

    assert message in error
    assert "Traceback" not in error
    assert not list((tmp_path / "out").glob("tasks/*/*/manifest.json"))


def test_rows_of_train_are_left_out_of_the_others(tmp_path):
    """Of a split with a file of its own, where its rows share a text with train.

    Not where they share one with dev.
    """
    files, words = write_files(tmp_path, dev=0)
    words = [*words, "tasks.split_off={dev: 0.3}"]
    sets = tmp_path / "out/tasks/sst2"
    lines = [*sorted({text for text, _ in sentences(60)}), "one that nothing has taught"]
    (files / "dev.tsv").unlink()
    (files / "test.tsv").write_text(
        "sentence\tlabel\n" + "".join(f"{text.upper()}\t1\n" for text in lines), "utf-8"
    )

    assert main(words) == 0

    before = texts_of(open_split(sets, "test")).keys()

    assert main([*words, "tasks.disjoint=true"]) == 0

    train, dev, test = (texts_of(open_split(sets, name)) for name in ("train", "dev", "test"))

    assert test.keys() == before - train.keys()
    assert dev.keys() & test.keys()
    assert sum(len(labels) for one in (train, dev) for labels in one.values()) == 60
    assert counts_of(tmp_path)[1]["refused"] == {"excluded": len(before & train.keys())}


def test_one_file_cannot_be_train_and_a_disjoint_split(tmp_path, capfd):
    """Without the key all its rows are counted; with it none is left: refused.

    Pseudo-labels may be of train.
    """
    files, words = write_files(tmp_path, train=32, dev=0)
    sets = tmp_path / "out/tasks/sst2"
    other = files / "again.tsv"
    other.symlink_to(files / "train.tsv")
    entries = f"input=[{{path: {files}/train.tsv, source: train}}, {{path: {other}, source: dev}}]"

    assert main([*words, entries, "tasks.disjoint=true"]) == 64
    assert "none of its rows is an example: 32 excluded" in capfd.readouterr().err
    assert main([*words, entries]) == 0
    assert open_split(sets, "dev").manifest.config["notes"]["also_in_train"] == 32
    assert "32 also in train" in capfd.readouterr().out

    shutil.rmtree(sets)

    assert (
        main(
            [*words, entries.replace("source: dev", "source: train_pseudo"), "tasks.disjoint=true"]
        )
        == 0
    )
    assert sum(map(len, texts_of(open_split(sets, "train_pseudo")).values())) == 32


def test_a_split_without_a_class_is_told(tmp_path, caplog):
    """A class of one row is in one split alone; the other one is named, with what to do."""
    files, words = write_files(tmp_path)
    (files / "dev.tsv").unlink()
    (files / "test.tsv").unlink()
    lines = [f"sentence number {number} of the file\t0" for number in range(40)]
    (files / "train.tsv").write_text(
        "\n".join(["sentence\tlabel", *lines, "the only one\t1"]) + "\n"
    )

    assert main([*words, "tasks.split_off={dev: 0.3}"]) == 0

    (told,) = [message for message in caplog.messages if "has no row of 1" in message]
    split = "train" if "train has" in told else "dev"
    made = open_split(tmp_path / "out/tasks/sst2", split).manifest
    assert not made.config["examples_by_label"].get("1")


def test_carved_splits_hold_the_rest_of_the_file(tmp_path):
    """All rows are there once, the refused one in train alone."""
    files, words = write_files(tmp_path, train=81, dev=0)
    (files / "dev.tsv").unlink()
    with (files / "train.tsv").open("a") as file:
        file.write("one\ttwo\tthree\n")

    assert main([*words, "tasks.split_off={dev: 0.3}"]) == 0

    found = [texts_of(open_split(tmp_path / "out/tasks/sst2", split)) for split in ("train", "dev")]

    assert not found[0].keys() & found[1].keys()

    train, dev = (sum(map(len, one.values())) for one in found)

    assert (train + dev, 9 < dev < 40) == (81, True)

    splits, total = counts_of(tmp_path)

    assert total["refused"] == {"fields": 1, "no_label": 1}

    splits["dev"]["examples"] -= 1
    with pytest.raises(IntegrityError, match="tasks dev: counts do not add up"):
        TasksStage.__new__(TasksStage).check({"splits": splits})


def test_several_classes_are_a_column_of_zeros_and_ones(tmp_path):
    """The rows are counted apart from the stage, and the set passes every check."""
    sets = make_labeled_sets(tmp_path, "labels: tags")
    dev = open_split(sets, "dev")
    names = ("bad", "film", "good")
    rows = [labeled_row(number) for number in range(120, 160)]

    assert dev.manifest.config["examples_by_label"] == Counter(
        tag for row in rows for tag in row["tags"]
    )
    assert [*dev.manifest.config["reader"]["classes"]] == [*names]

    found = Counter(
        tuple(row["labels"].tolist())
        for block in range(len(dev.index))
        for row in dev.read_block(block)
    )

    assert found == Counter(tuple(int(name in row["tags"]) for name in names) for row in rows)
    assert found[0, 0, 0] > 0
    assert validate(sets / "dev").rows
    assert check_run(tmp_path / "out")


def test_files_of_one_name_in_several_folders_count_each(tmp_path):
    """What a run finds done depends on all of them."""
    given = [f"input={tmp_path}/files", f"output={tmp_path}/out"]
    given.append(f"tokenizer.path={write_vocabulary(tmp_path / 'words')}")
    given.append("tasks.reader={name: labeled, label: folder}")
    found = []

    for name in ("bad", "good"):  # two classes are the least
        (tmp_path / "files/train" / name).mkdir(parents=True)
        (tmp_path / "files/train" / name / "1.txt").write_text("plot")

    for text in ("a", "dull heart"):
        for name in ("neg", "no", "pos"):
            (tmp_path / "files/train" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "files/train" / name / "1.txt").write_text(text)
            stage = TasksStage(load_recipe(write_recipe(tmp_path), given))
            unit = stage.passes()[0].units["train"]
            inputs = UnitInputs(stage.find_folder)
            unit.read(unit.source, unit.config.build_reader(unit.limits), inputs)
            found.append((Describer().describe(unit), inputs.reads))

    assert all(first != second for first, second in pairwise(found))


def test_unknown_words_of_a_task_are_counted_and_told(tmp_path, caplog, capsys):
    """Ten texts of the training file have a word of seven letters that the vocabulary cannot
    spell."""
    files, arguments = write_files(tmp_path)
    ends = ["a", "no", "not", "with", "very", "one", "dull", "fine", "plot", "heart"]
    added = "".join(f"a good film xylopho {end}\t1\n" for end in ends)
    (files / "train.tsv").write_text((files / "train.tsv").read_text() + added)

    assert main(arguments) == 0

    splits, total = counts_of(tmp_path)
    unknown = total["unknown_text"]["und"]

    assert (unknown["unknown_tokens"], unknown["unknown_characters"]) == (10, 70)
    assert "unknown_text" not in splits["dev"]

    assert "train.tsv: unknown: 10 tokens for 70 characters" in caplog.text
    assert "unknown: 10 tokens for 70 characters" in capsys.readouterr().out


def test_the_key_that_keeps_more_of_long_texts_is_named(tmp_path, capsys):
    make_sets(tmp_path, "tasks.max_length=8")
    said = " ".join(capsys.readouterr().out.split())

    (proposed,) = re.findall(r"longer than 8 tokens: (tasks\.max_length=\d+) keeps", said)

    make_sets(tmp_path, proposed)
    assert "longer than" not in capsys.readouterr().out
