"""FASTA: sequences as they were written, whatever the lines, ranges and pieces."""

import gzip
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord, detect_reader
from tests.pipeline.captures import counted, read, texts

FILE = b">seq1 first\nACGT\nACGT\n>seq2\nGGCC\n"
PLAIN = st.text(st.sampled_from("ACGTNacgtnMKVLX*-."), min_size=1, max_size=40).filter(
    lambda text: text.strip("*")
)


def lines_of(letters, width):
    return [letters[first : first + width] for first in range(0, len(letters), width)]


@st.composite
def files(draw):
    """Sequences with the file that holds them, and where each header starts."""
    sequences = draw(st.lists(PLAIN, min_size=1, max_size=6))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    content = draw(st.sampled_from(["", "; written by hand" + end, end]))
    starts = []

    for number, letters in enumerate(sequences):
        starts.append(len(content))
        lines = [f">s{number} some words", *lines_of(letters, draw(st.integers(1, 12)))]

        if draw(st.booleans()):
            lines.insert(
                draw(st.integers(1, len(lines))), draw(st.sampled_from(["", "  ", ";> no header"]))
            )

        content += end.join(lines) + end

    if draw(st.booleans()):
        content = content.removesuffix(end)
    return [letters.removesuffix("*") for letters in sequences], content.encode(), starts


@settings(max_examples=150)
@given(made=files(), data=st.data())
def test_sequences_come_back_in_any_ranges(made, data, tmp_path_factory):
    """The ranges hold each sequence once: that in which its header starts."""
    sequences, content, starts = made
    path = tmp_path_factory.mktemp("fasta") / "a.fasta"
    path.write_bytes(content)

    assert texts(read(path, name="fasta")) == sequences

    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=3)))
    bounds = [0, *cuts, len(content)]
    for first, last in pairwise(bounds):
        inside = [
            text for text, start in zip(sequences, starts, strict=True) if first <= start < last
        ]
        assert texts(read(path, first, last, name="fasta")) == inside

    path.write_bytes(gzip.compress(content))

    assert texts(read(path, name="fasta")) == sequences


@settings(max_examples=100)
@given(made=files(), most=st.integers(1, 9))
def test_long_sequences_are_cut_and_their_pieces_joined_are_the_sequence(
    made, most, tmp_path_factory
):
    sequences, content, _ = made
    path = tmp_path_factory.mktemp("fasta") / "a.fa"
    path.write_bytes(content)
    joined = {}
    at = []

    for item in read(path, name="fasta", max_letters=most):
        if not isinstance(item, RawRecord):
            assert item.reason == "final_stop"
            continue

        assert len(item.text) <= most
        assert item.extra["start"] == len(joined.get(item.extra["id"], "")), (
            "letters before the piece"
        )

        joined[item.extra["id"]] = joined.get(item.extra["id"], "") + item.text

        assert content[item.locator : item.locator + 1] == item.text[:1].encode(), (
            "where the piece starts"
        )

        at.append(item.locator)

    assert list(joined.values()) == sequences
    assert len(set(at)) == len(at), "each document has a uid of its own"


def test_names_stops_and_masked_letters(read_as):
    """The first word of a header is the id.

    Right values by hand, after the format's description by NCBI.
    """
    content = (
        b"\xef\xbb\xbf>sp|P1|KIN_X  Protein one; \xce\xb2 chain\nMKV "
        b"la\nLA*\n>\nACGT\n>empty\n>chr1\nacgtNNNN\nAC*GT\n"
    )
    items = read_as(content)
    records = [item for item in items if isinstance(item, RawRecord)]

    assert [
        (
            item.text,
            item.extra["id"],
            item.extra["description"],
        )
        for item in records
    ] == [
        ("MKVlaLA", "sp|P1|KIN_X", "Protein one; β chain"),
        ("ACGT", "", ""),
        ("acgtNNNNAC*GT", "chr1", ""),
    ]
    assert counted(items) == {"final_stop": 1, "empty": 1}


@pytest.mark.parametrize(
    ("content", "records"),
    [
        (
            b">a\nATAGA\n\n>b\nAGATTAG\n>c\nAG\n",
            [("a", "", "ATAGA"), ("b", "", "AGATTAG"), ("c", "", "AG")],
        ),
        (b">A <B> <C>\nNNNN\n", [("A", "<B> <C>", "NNNN")]),
        (b">a one\rACGT\rAC\r>b\rGGCC\r", [("a", "one", "ACGTAC"), ("b", "", "GGCC")]),
        (b">a\r\r\nAC\r\r\nGT\r\r\n", [("a", "", "ACGT")]),
        (b"# made by hand\n>a\nACGT\n# in between\nAC\n", [("a", "", "ACGTAC")]),
        (
            b">genome #1\nATAT\n>genome #2\nATATT\n",
            [("genome", "#1", "ATAT"), ("genome", "#2", "ATATT")],
        ),
        (b">a\nACGT\n   \n\t\n", [("a", "", "ACGT")]),
        (b">a\nACGT\n;a comment > as it is\n>b\nAC\n", [("a", "", "ACGT"), ("b", "", "AC")]),
        (
            b"> spaced header\nACGT\n>id\tafter a tab\nAC\n",
            [("spaced", "header", "ACGT"), ("id", "after a tab", "AC")],
        ),
    ],
)
def test_files_that_other_readers_had_trouble_with(read_as, content, records):
    """Right values written down before the run, from reports about other readers of FASTA."""
    items = read_as(content)
    assert [
        (
            item.extra["id"],
            item.extra["description"],
            item.text,
        )
        for item in items
    ] == records


@pytest.mark.parametrize(
    ("content", "texts_", "counts"),
    [
        (b"ACGT\nACGT\n", [], {"no_header": 1}),
        (b"no FASTA at all\n>a\nACGT\n", ["ACGT"], {"no_header": 1}),
        (b"@read1\nACGT\n+\n!!!!\n@read2\nACGT\n", [], {"no_header": 1}),
        (b">a\nAC1GT\n>b\nAC GT\n", ["ACGT"], {"bad_letters": 1}),
        (b">a\n\xd0\x90\xd0\x91\n>b\nAC\x00\n>c\nA\n", ["A"], {"bad_letters": 2}),
        (b">a\n*\n>b\n", [], {"final_stop": 1, "empty": 2}),
        (b"", [], {}),
        (b"\n\n", [], {}),
    ],
)
def test_what_is_no_sequence_is_counted(read_as, content, texts_, counts):
    items = read_as(content)
    assert (texts(items), counted(items)) == (texts_, counts)


def test_a_bad_letter_is_named_with_its_sequence(read_as):
    (item,) = read_as(b">read7\nAC?GT\n")
    assert isinstance(item, SkippedRecord)
    assert item.detail == "read7 has '?'"


def test_a_cut_file_costs_the_sequence_that_it_hits(read_as):
    sequences = [f">s{number}\n{'ACGTTGCA' * 40}\n".encode() for number in range(200)]
    whole = gzip.compress(b"".join(sequences), mtime=0)
    items = read_as(whole[: len(whole) // 2])
    found = texts(items)

    assert set(found) == {"ACGTTGCA" * 40}
    assert 0 < len(found) < 200
    assert counted(items) == {"truncated": 1}


def test_a_line_above_the_limit_costs_its_sequence(read_as):
    content = b">a\nACGT\n" + b"A" * 1000 + b"\nAC\n>b\nGG\n"
    items = read_as(content, limits=InputLimits(line_bytes=100))
    assert (texts(items), counted(items)) == (["GG"], {"line_bytes": 1})


def test_a_chromosome_in_one_line_is_read_in_pieces(read_as):
    """A genome is many documents, some of which can be held out."""
    items = read_as(b">chr1\n" + b"ACGTACGTAC" * 250_500 + b"\n")
    assert [len(item.text) for item in items] == [10_000] * 250 + [5_000]
    assert [item.extra["start"] for item in items] == list(range(0, 2_510_000, 10_000))


@pytest.mark.parametrize("name", ["a.fasta", "a.FA", "a.faa", "a.ffn", "a.fas", "a.fa.zst"])
@pytest.mark.parametrize(
    ("content", "is_whole"), [(FILE, True), (gzip.compress(FILE, mtime=0), False)]
)
def test_names_of_files_of_which_plain_ones_are_read_in_ranges(write, name, content, is_whole):
    assert detect_reader(write(content, name)) == ("fasta", is_whole)
