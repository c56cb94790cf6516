"""Views of a row, against what the row holds; the page is self-contained and escapes."""

import shutil

from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.rows import rows_of
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.inspect_shard import main, view_of
from tests.extensions.compression.distillation.test_stored_scores import write_scores
from tests.pipeline.task_files import make_question_sets, make_sets, make_tagged_sets, open_split
from tests.tools.small_run import example_sets, plain_text
from tests.train.masked_set import write_masked_sets


def test_the_terminal_shows_text_as_text(shard_sets, capsys):
    manifest, _ = example_sets(shard_sets)["causal_lm"]
    for number in range(len(open_shards(manifest))):
        if "[red]text[/red]" in part(view_of(manifest, number), "input_ids").text:
            break

    assert main([str(manifest), "--sample", str(number)]) == 0

    shown = capsys.readouterr().out

    assert "\x1b" not in shown
    assert "[red]text[/red]" in plain_text(shown)

    for expected in (
        "input_ids",
        "102 with 4,862 tokens",
        "packed length=48 separator=eos",
        "the row",
    ):
        assert expected in plain_text(shown)


def test_a_single_shard_counts_its_own_rows(shard_sets):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    shards = open_shards(manifest)
    first = shards.manifest.shards[0].rows

    assert view_of(shards.shard_path(1), 4) == view_of(manifest, first + 4)

    tar, _ = example_sets(shard_sets)["span_corruption"]

    assert view_of(next(tar.parent.glob("*00000-of*.tar")), 0).title.startswith(
        "span_corruption/train · row 0 of"
    )


def test_mistakes_end_in_one_message(shard_sets, tmp_path, capsys):
    manifest, _ = example_sets(shard_sets)["masked_lm"]
    cases = [
        ([str(manifest), "--sample", "212"], 64, "has 212 rows, numbered from 0"),
        (
            [str(manifest), "--sample", "-1"],
            64,
            "sample: expected at least 0, got -1",
        ),
        ([str(manifest.parent / "shard-9.arrow")], 64, "names no such shard"),
        ([str(manifest), "--tokenizer", str(tmp_path)], 64, "no tokenizer here"),
    ]
    for arguments, code, message in cases:
        assert main(arguments) == code
        error = capsys.readouterr().err
        assert message in error


def test_without_its_tokenizer_a_row_is_shown_as_ids(shard_sets, tmp_path, capsys):
    """With the same marks, and restored to the same ids; a parent set names the tokenizer."""
    for label, (manifest, _) in example_sets(shard_sets).items():
        moved = shutil.copytree(manifest.parent, tmp_path / label)

        assert main([str(moved)]) == 0

        out, err = capsys.readouterr()

        assert (
            err
            == f"note: no tokenizer above {moved}/manifest.json: ids are shown; tokenizer=DIR names "
            "its folder\n"
        )

        ids = open_shards(moved)[0]["input_ids"].tolist()
        shown = plain_text(out)

        assert " ".join(map(str, ids[:3])) in shown
        assert "restored by the objective" in shown
        assert "not possible" not in shown
        assert main([str(moved), "--tokenizer", str(manifest.parent)]) == 0
        assert capsys.readouterr().err == ""


def part(view, title):
    return next(found for found in view.parts if found.title.startswith(title))


def test_the_best_classes_stand_next_to_their_label(tmp_path):
    """Stored are the label with label / 64, and the id before it with 1 / 4."""
    manifest = write_masked_sets(tmp_path / "sets", rows=41, heldout=3)
    shards = open_shards(manifest)
    scores = write_scores(tmp_path / "scores", shards)
    shown = part(view_of(manifest, 5, columns=scores), "best scores of the teacher")
    labels = shards[5]["label_ids"].tolist()

    assert len(shown.rows) == len(labels) > 0

    for (label, best), number in zip(shown.rows, labels, strict=True):
        entries = sorted(
            [
                (number / 64, str(number)),
                (0.25, str(number - 1)),
            ],
            reverse=True,
        )
        assert label.strip() == str(number)
        assert [entry.split() for entry in best.split(" · ")] == [
            [name, f"{share:.3f}"] for share, name in entries
        ]

    titles = [one.title for one in view_of(manifest, 5).parts]

    assert "best scores of the teacher" not in titles


def test_a_class_has_its_name(tmp_path, capsys):
    sets = make_sets(tmp_path)
    shards = open_split(sets, "dev")
    row = shards.read_block(0).row(0)
    number = int(row["label"][0])
    kind = kind_of(shards.manifest.objective)

    assert kind.describe_answer(row) == {"label": f"{number}, '{number}' of sst2"}

    facts = TaskMetadata(name="toy", head="regression", metrics=("pearson",), low=0, high=5)
    scored = type(row)(row.fixed, {"target": row["label"] + 0.5})

    assert rows_of("regression", "encoder").describe_answer(facts, scored) == {
        "target": f"{number}.5, from 0 to 5 in toy"
    }
    assert main([str(sets / "dev")]) == 0

    out = capsys.readouterr().out

    assert f"{number}, '{number}' of sst2" in out
    assert "not possible" not in out


def test_tags_stand_beside_their_words(tmp_path, capsys):
    sets = make_tagged_sets(tmp_path)
    row = open_split(sets, "dev").read_block(0).row(0)
    kind = kind_of(open_split(sets, "dev").manifest.objective)
    said = kind.describe_answer(row)["tags"].split()

    assert {one.rpartition("/")[2] for one in said} <= {"O", "B-X", "I-X"}
    assert all(("film" in one or "plot" in one) == one.endswith("/B-X") for one in said)
    assert main([str(sets / "dev")]) == 0
    assert " ".join(said) in capsys.readouterr().out


def test_answers_are_parts_of_their_text(tmp_path):
    shards = open_split(make_question_sets(tmp_path), "dev")
    said = [
        kind_of(shards.manifest.objective).describe_answer(row)["answer"]
        for row in shards.read_block(0)
    ]

    assert len(said) == len(shards) > 21
    assert sum(one.startswith("'") for one in said) >= 21
    assert any(one.startswith("none in this window, of ['") for one in said)
