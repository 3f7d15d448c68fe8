"""Files that another program can replace at any time."""

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from gputopo_mps.files import clear, open_regular, read_end


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        read_end(path, 9)
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        read_end(path, 9)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        read_end(path, 9)
    with pytest.raises(OSError, match="no regular file"):
        read_end(tmp_path, 9)
    with pytest.raises(OSError, match="no regular file"):
        read_end(Path("/dev/zero"), 9)


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"last")
    assert read_end(path, 5) == b"\0last"
    path.write_bytes(b"short")
    assert read_end(path, 100) == b"short"


def test_a_file_that_is_replaced_while_it_is_read_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_regular(path) as descriptor:
        path.unlink()
        path.symlink_to("/dev/zero")
        assert os.pread(descriptor, 9, 0) == b"old"


def test_a_file_that_is_replaced_all_the_time_is_read_or_rejected(tmp_path: Path) -> None:
    path, ended = tmp_path / "file", Event()

    def replace() -> None:
        while not ended.is_set():
            path.write_bytes(b"text")
            path.unlink()
            os.mkfifo(path)
            path.unlink()
            path.symlink_to("/dev/zero")
            path.unlink()

    thread = Thread(target=replace)
    thread.start()
    found = set()
    try:
        for _ in range(2000):
            try:
                found.add(read_end(path, 9))
            except OSError:
                found.add(b"rejected")
    finally:
        ended.set()
        thread.join()
    assert b"rejected" in found
    assert found <= {b"rejected", b"text", b""}


def test_a_folder_is_cleared_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "folder"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/link").symlink_to(outside)
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    clear(folder)
    assert [*folder.iterdir()] == []
    assert (outside / "kept").exists()


def test_folders_in_each_other_without_an_end_are_cleared(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=descriptor)
        inner = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)
    clear(tmp_path)
    assert [*tmp_path.iterdir()] == []
