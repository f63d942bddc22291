"""Files in the making: what a killed process left behind is removed, what somebody is writing is not."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boundrec import files
from boundrec.files import whole_file

LEFT = ".boundrec-0123456789abcdef.tmp"
WRITER = """
import sys, time
from pathlib import Path
from boundrec.files import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def write(path, content=b"new"):
    with whole_file(path) as file:
        file.write(content)


def in_the_making(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith(".boundrec-"))


def no_locks(*arguments):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_what_was_left_behind_is_removed_by_the_next_file_in_that_folder(tmp_path):
    (tmp_path / LEFT).write_bytes(b"half")
    write(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_living_process_writes_stays_until_it_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "theirs"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"writing\n"
            (living,) = in_the_making(tmp_path)
            write(tmp_path / "ours")
            assert in_the_making(tmp_path) == [living]
        finally:
            process.kill()
    assert in_the_making(tmp_path) == [living]
    write(tmp_path / "ours")
    assert os.listdir(tmp_path) == ["ours"]


def test_two_files_written_at_once_do_not_take_each_other_for_left_behind(tmp_path):
    with whole_file(tmp_path / "one") as one:
        one.write(b"1")
        with whole_file(tmp_path / "two") as two:
            two.write(b"2")
        write(tmp_path / "three", b"3")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"one": b"1", "two": b"2", "three": b"3"}


def test_only_files_under_our_names_are_removed(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(b"mine")
    (tmp_path / ".boundrec-notes.tmp").write_bytes(b"mine")
    (tmp_path / f"{LEFT}.bak").write_bytes(b"mine")
    (tmp_path / LEFT).symlink_to(kept)
    (tmp_path / LEFT.replace("0", "1")).mkdir()
    os.mkfifo(tmp_path / LEFT.replace("0", "2"))
    before = sorted(os.listdir(tmp_path))
    write(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "file"])


@pytest.mark.parametrize("without", ["locks", "the module"])
def test_where_no_lock_can_tell_only_what_is_a_day_old_is_removed(tmp_path, monkeypatch, without):
    if without == "locks":
        monkeypatch.setattr(files.fcntl, "flock", no_locks)
    else:
        monkeypatch.setattr(files, "fcntl", None)
    (tmp_path / LEFT).write_bytes(b"half")
    write(tmp_path / "file")
    assert in_the_making(tmp_path) == [LEFT]
    os.utime(tmp_path / LEFT, (0, time.time() - 2 * files.SURELY_DEAD))
    write(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    flock, removed = files.fcntl.flock, []

    def removed_first(number, how):
        if not removed:
            removed.extend(in_the_making(tmp_path))
            (tmp_path / removed[0]).unlink()
        flock(number, how)

    monkeypatch.setattr(files.fcntl, "flock", removed_first)
    write(tmp_path / "file")
    assert removed
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_with_the_file_that_did_not_fit():
    with pytest.raises(OSError, match="No space left") as told, whole_file(Path("/dev/full")) as file:
        file.write(b"0")
    assert told.value.filename == "/dev/full"


def test_a_file_past_the_limit_of_sizes_is_told_by_its_own_name(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(OSError, match="File too large") as told, whole_file(path):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    assert told.value.filename == str(path)
