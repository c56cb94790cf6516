"""The table of nasty inputs: every row has a test somewhere, and those without another file are here."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from clozeline.errors import ConfigurationError, PartialFailureError
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.pipeline.clean.test_nasty_inputs import CASES

TESTS = Path(__file__).parents[1]
STAGE, READERS, PLAN = (
    "pipeline/clean/test_nasty_inputs.py",
    "pipeline/ingest/readers",
    "pipeline/execution/test_plan.py",
)
HERE = "pipeline/test_nasty_rows.py"

# Each row of the table: cases of the stage by name, or tests as `file::name`.
ROWS = {
    "empty file of every format": ["empty.warc", f"{HERE}::test_an_empty_file_of_any_name"],
    "no gzip": ["noise.warc.gz"],
    "cut in the last member": ["cut.warc.gz"],
    "flipped bytes in a member": ["flipped.warc.gz"],
    "one member for all records": ["one_member.warc.gz"],
    "type by content, not by name": ["plain.warc", "plain_named.warc.gz", "gzip_named.warc"],
    "garbage between records": ["garbage.warc"],
    "wrong lengths": [f"length_{number}.warc" for number in range(5)],
    "no or a repeated record id": ["no_record_id.warc"],
    "no target": ["no_uri.warc"],
    "status and empty body": ["status.warc.gz"],
    "content encodings": ["encodings.warc.gz"],
    "chunks": ["chunked.warc.gz"],
    "charsets": ["latin.warc.gz", "wrong_charset.warc.gz", "utf16.warc.gz"],
    "bad bytes": ["bad_bytes.warc.gz", "many_bad_bytes.warc.gz"],
    "controls": ["controls.warc.gz", f"{STAGE}::test_what_was_mended_is_counted"],
    "fragment": ["fragment.warc.gz"],
    "type contradicted": ["contradicted.warc.gz"],
    "deep and long markup": ["deep.warc.gz", "attributes.warc.gz"],
    "crash of the extractor": [
        "memory.warc.gz",
        "pipeline/clean/extractors/test_extraction.py::test_a_page_at_which_two_processes_die_is_to_blame_and_no_process_stays",
    ],
    "bombs": ["bomb.warc.gz", "bomb.jsonl.zst"],
    "huge window": [f"{READERS}/test_jsonl.py::test_a_window_of_gigabytes_is_refused"],
    "cut zstd": ["cut.jsonl.zst", "pipeline/clean/test_unit.py::test_a_truncated_input_is_accepted_or_refused"],
    "gzip: cut, junk, members; frames": ["cut.jsonl.gz", "junk.jsonl.gz", "frames.jsonl.zst"],
    "broken lines": ["lines.jsonl"],
    "bad UTF-8 in a line": ["utf8.jsonl"],
    "lone surrogate": ["surrogate.jsonl"],
    "mark, line ends, separators": ["bom.jsonl"],
    "texts of other types": ["texts.jsonl"],
    "odd numbers and keys": ["numbers.jsonl"],
    "long line, long document": ["line.jsonl", "long.jsonl"],
    "one word, letters, one word repeated": ["no_space.txt", "letters.txt", "one_word.txt"],
    "short duplicates": ["pipeline/dedup/test_near_passes.py::test_short_texts_are_compared_whole"],
    "many copies": ["pipeline/dedup/test_stage.py::test_ten_thousand_copies_leave_one"],
    "chain": ["pipeline/dedup/test_clusters.py::test_verify_breaks_a_chain_and_without_it_the_chain_goes_together"],
    "a file twice, links": [
        f"{HERE}::test_a_file_named_twice_is_refused", f"{HERE}::test_links_are_files_of_their_own",
    ],
    "file names": [f"{PLAN}::test_names_of_any_bytes_are_unique_and_printable"],
    "input changes": [
        "pipeline/clean/test_unit.py::test_an_input_that_grows_while_it_is_read_fails_its_unit",
        "pipeline/execution/test_remote_file.py::test_a_file_that_changes_between_two_reads_fails_its_unit",
    ],
    "full disk": ["clozeline/test_commands_on_faults.py::test_a_full_disk"],
    "kills": ["pipeline/test_stage_faults.py::test_an_end_at_any_publication_costs_nothing"],
    "two drivers": ["pipeline/execution/test_output_lock.py::test_a_second_process_waits_until_the_first_ends"],
    "changed configuration": [
        "pipeline/execution/test_runner.py::test_new_version_redoes_and_same_version_skips",
        f"{PLAN}::test_the_digest_follows_inputs_and_options_and_not_places",
    ],
    "scripts": ["scripts.txt", f"{STAGE}::test_scripts_are_kept_as_they_are_but_composed"],
    "nothing left": [f"{HERE}::test_nothing_left_says_why"],
    "tables": ["noise.parquet", "noise.arrow", f"{HERE}::test_tables_of_other_types_are_text_or_counted"],
    "hostile extra": ["extra.jsonl", f"{READERS}/test_fields.py::test_too_much_beside_the_text_is_dropped"],
}  # fmt: skip


def test_every_row_has_a_test():
    assert len(ROWS) == 46
    cases = {case.name for case in CASES}
    for row, tests in ROWS.items():
        for test in tests:
            file, separator, name = test.partition("::")
            if separator:
                assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), (row, test)
            else:
                assert test in cases, (row, test)
    named = {test for tests in ROWS.values() for test in tests}
    assert (
        not {case.name for case in CASES}
        - named
        - {"bzip.jsonl.bz2", "xz.jsonl.xz"}
        - {name for name in cases if name.startswith("empty")}
    ), "a case belongs to a row"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json", "a.md", "a.wet", "a.arc.gz", "a.xhtml", "a.ndjson.lz4"])
def test_an_empty_file_of_any_name(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    done = run_clean(str(tmp_path / name), tmp_path / "out")
    assert (done.documents, done.nonzero("notes"), done.nonzero("malformed")) == ([], {"empty_file": 1}, {})


def test_a_file_named_twice_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(ConfigurationError, match="is named twice"):
        run_clean([str(tmp_path / "a.jsonl"), f"{tmp_path}/*.jsonl"], tmp_path / "out")


def test_links_are_files_of_their_own(tmp_path):
    """Each has its own name, so its own uids; `dedup` drops the copies."""
    (tmp_path / "a.jsonl").write_text('{"text": "a text"}\n')
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "c.jsonl")
    documents = run_clean(f"{tmp_path}/*.jsonl", tmp_path / "out").documents
    assert [document.source for document in documents] == [f"default/{name}.jsonl" for name in "abc"]
    assert len({document.uid for document in documents}) == 3
    assert len({document.content_hash for document in documents}) == 1


def test_nothing_left_says_why(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "too short"}\n')
    recipe = recipe_for(str(tmp_path / "a.jsonl"), tmp_path / "out", {"language": None, "filters": ["gopher_quality"]})
    with pytest.raises(PartialFailureError, match="every document was rejected") as failed:
        run_recipe(recipe, None, Progress(), [])
    assert failed.value.exit_code == 69


@pytest.mark.parametrize(("kind", "read"), [
    (pa.large_utf8(), True), (pa.dictionary(pa.int8(), pa.utf8()), True), (pa.string_view(), True),
    (pa.list_(pa.utf8()), False), (pa.float64(), False),
])  # fmt: skip
def test_tables_of_other_types_are_text_or_counted(kind, read, tmp_path):
    plain = pa.array([["x"]] if pa.types.is_list(kind) else [1.5] if pa.types.is_floating(kind) else ["a text"])
    column = plain.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else plain.cast(kind)
    table = pa.table({"text": column})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    files = ["a.arrow"]
    if kind != pa.string_view():
        parquet.write_table(table, tmp_path / "a.parquet")
        files.append("a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PARE" + bytes(99) + b"PARE")  # an encrypted footer
    for name in files:
        if not read:
            with pytest.raises(ConfigurationError, match="no record has a text: column 'text' has the type"):
                run_clean(str(tmp_path / name), tmp_path / f"out-{name}")
            continue
        done = run_clean(str(tmp_path / name), tmp_path / f"out-{name}")
        assert [document.text for document in done.documents] == ["a text"]
        assert not done.nonzero("malformed")
    done = run_clean(str(tmp_path / "b.parquet"), tmp_path / "out-b")
    assert done.nonzero("malformed") == {"damaged": 1}
    assert not done.documents
