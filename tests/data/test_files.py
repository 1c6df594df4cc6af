import os
import stat

import pytest

from privboost import BudgetStore, ModelFileError
from privboost._core.files import FileKind, compress, decompress, write_file
from privboost.accounting.ledger import checked_ledger
from privboost.cli.output import check_files

KIND = FileKind(b"TESTFIL", 3, "a file of tests")


def write_to(path):
    write_file(path, b"new")


def open_store(path):
    BudgetStore(path).open("patients", 1.0, 1e-6)


def check_written(path):
    check_files((), [path], [path])


def test_content_comes_back():
    assert bytes(KIND.unseal(KIND.seal(b"content"), "path")) == b"content"


@pytest.mark.parametrize("at", range(len(KIND.seal(b"content"))))
def test_every_bit_is_covered(at):
    for bit in range(8):
        data = bytearray(KIND.seal(b"content"))
        data[at] ^= 1 << bit
        with pytest.raises(
            ModelFileError, match=r"path (is (not a file of tests, or it is )?damaged|has version)"
        ):
            KIND.unseal(bytes(data), "path")


def test_every_length_is_covered():
    data = KIND.seal(b"content")
    for wrong in (*(data[:end] for end in range(len(data))), data + b"0", b""):
        with pytest.raises(ModelFileError, match="damaged"):
            KIND.unseal(wrong, "path")


def test_another_version_is_named():
    other = FileKind(KIND.name, 9, KIND.what).seal(b"content")
    with pytest.raises(ModelFileError, match="path has version 9; 3 is read here: a later"):
        KIND.unseal(other, "path")
    other = FileKind(KIND.name, 2, KIND.what).seal(b"content")
    with pytest.raises(ModelFileError, match="path has version 2; 3 is read here: an earlier"):
        KIND.unseal(other, "path")


@pytest.mark.parametrize("content", [b"", b"some bytes", bytes(10**6), os.urandom(10**5)])
def test_what_is_compressed_comes_back(content):
    """Even what would shrink to nearly nothing, which is no reason not to read it."""
    packed = compress(content)
    assert decompress(packed) == content
    for wrong in (packed[:-1], packed + b"0"):
        with pytest.raises(ValueError, match="cut short"):
            decompress(wrong)


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_file(path, b"old", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def fail(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_neighbouring_file_is_left_alone(tmp_path):
    (tmp_path / "file.part").write_bytes(b"dear to me")
    write_file(tmp_path / "file", b"new")
    assert (tmp_path / "file.part").read_bytes() == b"dear to me"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_link_stays_one(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("write", [write_to, checked_ledger, open_store, check_written])
@pytest.mark.parametrize("target", ["elsewhere", "link"])
def test_a_link_to_nothing_is_not_followed(write, target, tmp_path):
    """Whoever made it would choose where the file goes."""
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(FileNotFoundError, match="is a symbolic link to nothing"):
        write(tmp_path / "link")
    assert os.listdir(tmp_path) == ["link"]


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="is a device or a pipe"):
        write_file(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()
