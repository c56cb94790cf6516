"""Archives are read as folders: hostile, damaged and nested ones cost what they hit, and each loss
has a name."""

import bz2
import errno
import gzip
import io
import lzma
import tarfile
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.ingest.documents.files import read_rejections
from clozeline.pipeline.ingest.formats import archives
from clozeline.pipeline.ingest.formats.archives import ARCHIVE_REASONS, MemberFile, iterate_members
from clozeline.pipeline.ingest.formats.limits import InputLimits
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.range_site import RangeSite
from tests.refusals import refused

TEXTS = {
    f"t/{number:02d}.txt": f"The old mill number {number} stands near the river."
    for number in range(5)
}
PACK = {
    ".tar": lambda content: content,
    ".tar.gz": lambda content: gzip.compress(content, mtime=0),
    ".tgz": lambda content: gzip.compress(content, mtime=0),
    ".tar.zst": lambda content: zstandard.ZstdCompressor().compress(content),
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
}


def tar_bytes(files, kind=tarfile.GNU_FORMAT, **fields):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            for field, value in fields.items():
                setattr(info, field, value)
            info.size = 0 if "type" in fields else len(content)
            tar.addfile(
                info, io.BytesIO(content if isinstance(content, bytes) else content.encode())
            )

    return out.getvalue()


def zip_bytes(files, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def members_of(path, kind, limits=None):
    """Texts by name, and reasons by name."""
    found = {}
    reasons = {}

    with tempfile.TemporaryDirectory() as scratch:
        for member in iterate_members(path, kind, limits or InputLimits(), Path(scratch)):
            if isinstance(member, MemberFile):
                with member.open("rb") as file:
                    found[member.name] = file.read().decode("utf-8", "replace")
                assert (
                    member.stat().st_size >= len(found[member.name])
                    or "\ufffd" in found[member.name]
                )
            else:
                reasons[member.name] = member.reason

        assert not list(Path(scratch).iterdir())

    return found, reasons


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        *(
            (ending, lambda texts, last=last: last(tar_bytes(texts)))
            for ending, last in PACK.items()
        ),
        *(
            (".tar", partial(tar_bytes, kind=kind))
            for kind in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT)
        ),
        *(
            (".zip", partial(zip_bytes, method=method))
            for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
        ),
    ],
)
def test_an_archive_gives_the_documents_of_the_unpacked_folder(tmp_path, ending, pack):
    texts = {
        **TEXTS,
        f"t/{'n' * 90}/ü.txt": "With a long name.",
        "t/rows.jsonl": '{"text": "a row"}\n{"text": "b"}\n',
    }

    path = write(tmp_path, f"texts{ending}", pack(texts))
    for name, text in texts.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)

    packed = run_clean(str(path), tmp_path / "a")
    plain = run_clean(str(tmp_path / "in"), tmp_path / "b")

    assert sorted(each.text for each in packed.documents) == sorted(
        each.text for each in plain.documents
    )

    sources = {each.source.removeprefix(f"default/texts{ending}!") for each in packed.documents}

    assert sources == set(texts)
    assert len({each.uid for each in packed.documents}) == len(texts) + 1


def test_the_same_member_has_the_same_uid_in_another_folder_and_unit_size(tmp_path):
    first = write(tmp_path, "texts.zip", zip_bytes(TEXTS))
    (tmp_path / "moved").mkdir()
    moved = write(tmp_path / "moved", "texts.zip", zip_bytes(dict(reversed(TEXTS.items()))))
    ids = [
        {each.uid for each in run_clean(str(path), tmp_path / f"{path.parent.name}-out").documents}
        for path in (first, moved)
    ]

    assert ids[0] == ids[1]


def test_an_archive_within_a_folder_is_a_folder_there_and_options_reach_its_members(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, "a.zip", zip_bytes({"rows.csv": "body,id\nThe first.,1\nThe second.,2\n"}))
    (folder / "b.jsonl").write_text('{"body": "The third."}\n')
    done = run_clean({"path": str(folder), "text_key": "body"}, tmp_path / "out")

    assert [each.text for each in done.documents] == ["The first.", "The second.", "The third."]


def test_a_named_reader_reads_the_members(tmp_path):
    path = write(
        tmp_path, "a.tar.gz", gzip.compress(tar_bytes({"LIST": "one\ntwo\n", "b.log": "three\n"}))
    )
    done = run_clean({"path": str(path), "reader": "lines"}, tmp_path / "out")
    assert [each.text for each in done.documents] == ["one", "two", "three"]


HOSTILE = {
    "/etc/passwd": "unsafe_name",
    "../up.txt": "unsafe_name",
    "a/../../up.txt": "unsafe_name",
    "C:/x.txt": "unsafe_name",
    "..\\up.txt": "unsafe_name",
    ".hidden/a.txt": "hidden",
    "__MACOSX/._a.txt": "hidden",
    "site/style.css": "skipped .css",
    "out/_SUCCESS": "skipped marker",
    "_committed_123": "skipped marker",
    "site/logo.png.gz": "skipped .png",
}


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_lead_out_and_files_that_a_folder_skips_are_counted(tmp_path, kind):
    files = {**dict.fromkeys(HOSTILE, "bad"), **TEXTS}
    path = write(tmp_path, f"a.{kind}", (tar_bytes if kind == "tar" else zip_bytes)(files))
    found, reasons = members_of(path, kind)
    assert found == TEXTS
    assert sorted(reasons.values()) == sorted(HOSTILE.values())


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_a_tar_are_counted(tmp_path, kind):
    links = tar_bytes({"link.txt": b""}, type=kind, linkname="/etc/passwd")
    path = write(tmp_path, "a.tar", links[:512] + tar_bytes(TEXTS))
    assert members_of(path, "tar") == (TEXTS, {"link.txt": "link"})


def test_a_link_and_an_encrypted_member_of_a_zip_are_counted(tmp_path):
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    content = bytearray(zip_bytes({link: "/etc/passwd", "secret.txt": "x", **TEXTS}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.index(b"secret.txt", content.index(mark))
        content[content.rindex(mark, 0, start) + at] |= 1

    assert members_of(write(tmp_path, "a.zip", content), "zip") == (
        TEXTS,
        {"link.txt": "link", "secret.txt": "encrypted"},
    )


def test_nested_archives_and_members_without_a_reader_are_named(tmp_path):
    files = {
        "in.zip": zip_bytes(TEXTS),
        "in.tar.gz": gzip.compress(tar_bytes(TEXTS)),
        "a.log": b"words",
        "b.pdf": b"%PDF-1.4 words",
        "c.txt": b"%PDF-1.4 words",
        "d.txt": b"Good words.",
        "e.txt": b"",
    }
    for name, content in (("a.zip", zip_bytes(files)), ("a.tar", tar_bytes(files))):
        done = run_clean(str(write(tmp_path, name, content)), tmp_path / f"{name}-out")
        assert [each.text for each in done.documents] == ["Good words."]
        assert done.nonzero("malformed") == {"nested_archive": 2, "no_reader": 3}
        listed = read_rejections(next(done.folder.glob("rejects/*")))
        assert any("in.tar.gz" in record.detail for record in listed)


def test_a_repeated_name_is_counted(tmp_path):
    path = write(
        tmp_path,
        "a.tar",
        tar_bytes({"a.txt": "One."})[:1024] + tar_bytes({"a.txt": "Two.", "b.txt": "Three."}),
    )

    assert members_of(path, "tar")[1] == {"a.txt": "repeated_name"}


@pytest.mark.parametrize("kind", ["tar", "zip"])
@settings(max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_member_and_a_loss_is_told(kind, share, bit):
    """In the list at its end, a ZIP file may lose all of them."""
    content = bytearray(tar_bytes(TEXTS) if kind == "tar" else zip_bytes(TEXTS, zipfile.ZIP_STORED))
    place = int(share * (5 * 1024 if kind == "tar" else len(content)))
    is_list = kind == "zip" and place >= content.index(b"PK\x01\x02")
    content[place] ^= 1 << bit
    with tempfile.TemporaryDirectory() as folder:
        found, reasons = members_of(write(Path(folder), "a", content), kind)
    intact = {name: text for name, text in found.items() if TEXTS.get(name) == text}

    assert len(intact) >= len(TEXTS) - 1 or is_list or "a" in reasons
    assert len(found) == len(TEXTS) or reasons or is_list
    assert set(reasons.values()) <= {*ARCHIVE_REASONS, "hidden"}


@settings(max_examples=60)
@given(ending=st.sampled_from(sorted(PACK)), share=st.floats(0, 0.999))
def test_a_cut_tar_gives_the_members_before_the_cut_and_says_that_it_is_cut(ending, share):
    whole = PACK[ending](tar_bytes(TEXTS))
    # behind the last member there are only zeros
    end = 5 * 1024 if ending == ".tar" else len(whole) - 1

    with tempfile.TemporaryDirectory() as folder:
        found, reasons = members_of(
            write(Path(folder), f"a{ending}", whole[: int(end * share)]), "tar"
        )

    assert found == dict(list(TEXTS.items())[: len(found)])
    assert len(reasons) == 1
    assert set(reasons.values()) <= {"truncated", "damaged"}


@settings(max_examples=60)
@given(st.binary(max_size=3000))
def test_any_bytes_end_with_members_or_reasons(content):
    header = tar_bytes(TEXTS)[:1024]

    with tempfile.TemporaryDirectory() as folder:
        for given_bytes in (
            content,
            header + content,
            b"PK\x03\x04" + content,
            content + zip_bytes({}),
        ):
            for kind in ("tar", "zip"):
                found, reasons = members_of(write(Path(folder), "any", given_bytes), kind)
                assert found or reasons or given_bytes.endswith(zip_bytes({}))


def test_bombs_end_before_they_fill_the_disk(tmp_path):
    limits = InputLimits(decompressed_bytes=1 << 20)
    files = {f"{number}.txt": bytes(900_000) for number in range(60)}
    found, reasons = members_of(write(tmp_path, "a.zip", zip_bytes(files)), "zip", limits)

    assert (len(found), set(reasons.values())) == (1, {"bomb"})

    found, reasons = members_of(
        write(tmp_path, "a.tar.gz", gzip.compress(tar_bytes(files))), "tar", limits
    )

    assert len(found) < 40  # the members of a piece that was decoded already
    assert set(reasons.values()) == {"bomb"}


def test_a_large_member_is_read_from_a_file_and_none_is_left(tmp_path):
    rows = "".join(f'{{"text": "row {number} with some words"}}\n' for number in range(250_000))
    for name, content in (
        ("a.tar", tar_bytes({"a.jsonl": rows, **TEXTS})),
        ("a.zip", zip_bytes({"a.jsonl": rows})),
    ):
        path = write(tmp_path, name, content)
        done = run_clean(str(path), tmp_path / f"{name}-out", limit=3)
        assert [each.text for each in done.documents] == [
            f"row {number} with some words" for number in range(3)
        ]
        assert members_of(path, name[2:])[0]["a.jsonl"] == rows


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_full_disk_is_no_damage_of_the_archive(tmp_path, monkeypatch, kind):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = write(tmp_path, f"a.{kind}", (tar_bytes if kind == "tar" else zip_bytes)(TEXTS))
    monkeypatch.setattr(archives, "_MOST_MEMORY_BYTES", 0)
    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(OSError, match="No space left"):
        members_of(path, kind)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_claims_any_size_takes_no_memory_and_no_time(tmp_path, kind):
    info = tarfile.TarInfo("x")
    info.type = kind
    info.size = 1 << 40
    header = info.tobuf(tarfile.GNU_FORMAT)

    assert members_of(write(tmp_path, "a.tar", header + tar_bytes(TEXTS)), "tar")[0] == TEXTS

    info.type = tarfile.SYMTYPE
    info.size = 1 << 60
    claimed = tar_bytes(TEXTS)[:5120] + info.tobuf(tarfile.GNU_FORMAT)

    assert members_of(write(tmp_path, "b.tar", claimed), "tar")[0] == TEXTS


def test_a_zip_with_another_name_and_a_name_without_its_content_are_refused(tmp_path):
    for name, content in (
        ("a.docx", zip_bytes(TEXTS)),
        ("a.zip", b"words"),
        ("a.tar", b"words"),
    ):
        with refused(rf"{name}.*reader: text"):
            load_plan(recipe_for(str(write(tmp_path, name, content)), tmp_path / "out"))


def test_a_line_of_exclude_names_a_member(tmp_path):
    path = write(tmp_path, "a.zip", zip_bytes(TEXTS))
    lines = tmp_path / "exclude.txt"
    lines.write_text("default/a.zip!t/00.txt\n03.txt\n")
    done = run_clean(
        str(path),
        tmp_path / "out",
        {
            "language": None,
            "filters": [],
            "exclude": str(lines),
        },
    )

    assert sorted(each.source[-6:] for each in done.documents) == ["01.txt", "02.txt", "04.txt"]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_an_archive_of_a_web_server_is_read_as_that_of_a_disk(tmp_path, name):
    tar = tar_bytes(TEXTS)
    content = {
        "a.zip": zip_bytes(TEXTS),
        "a.tar": tar,
        "a.tar.gz": gzip.compress(tar),
    }[name]
    local = run_clean(str(write(tmp_path, name, content)), tmp_path / "local")
    site = RangeSite({name: content})
    with site.site.running():
        remote = run_clean(f"{site.site.url}{name}", tmp_path / "remote")

    assert remote.documents == local.documents
    assert len(local.documents) == len(TEXTS)


def test_archives_of_several_units_and_processes_give_the_same(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    for number in range(4):
        texts = {
            f"{number}/{place}.txt": f"Text {place} of archive {number}." for place in range(3)
        }
        write(folder, f"{number}.tar.gz", gzip.compress(tar_bytes(texts)))
        write(folder, f"{number}.zip", zip_bytes(texts))

    one = run_clean(str(folder), tmp_path / "one")
    many = run_clean(
        str(folder),
        tmp_path / "many",
        plan={"unit_bytes": 4096},
        executor={"workers": 2},
    )

    assert many.documents == one.documents
    assert len(one.documents) == 24
    assert not list((tmp_path / "many" / "clean").glob("tmp/*"))
