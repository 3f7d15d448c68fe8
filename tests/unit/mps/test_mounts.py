"""The folders that containers can write are on a tmpfs of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from gputopo_mps.mounts import mount_tmpfs, replace_mount, unmount

NOT_FOR_HOST = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "shm"
    yield path
    unmount(path)


def test_the_error_of_the_kernel_is_raised(folder: Path) -> None:
    with pytest.raises(OSError, match="shm"):
        mount_tmpfs(folder, mode="1777", size="much", files=9)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_it_is_mounted_once_and_unmounted_once(folder: Path) -> None:
    mount_tmpfs(folder, mode="1777", size="1m", files=9)
    assert folder.is_mount()
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert os.statvfs(folder).f_files == 9
    (folder / "a").touch()
    assert os.statvfs(folder).f_flag & NOT_FOR_HOST == NOT_FOR_HOST
    (folder / "link").symlink_to(folder / "a")
    with pytest.raises(OSError, match="symbolic links"):
        (folder / "link").read_bytes()
    mount_tmpfs(folder, mode="1777", size="2m", files=9)
    assert (folder / "a").exists()
    unmount(folder)
    unmount(folder)
    assert [*folder.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_replaced_mount_is_seen_by_this_process_only(folder: Path, tmp_path: Path) -> None:
    mount_tmpfs(folder, mode="1777", size="1m", files=9)
    (folder / "a").touch()
    target, seen = tmp_path / "target", []
    target.mkdir()

    def replace() -> None:  # a thread has mounts of its own
        replace_mount(folder, target)
        seen.append((target / "a").exists())

    thread = Thread(target=replace)
    thread.start()
    thread.join()
    assert seen == [True]
    assert not (target / "a").exists()
