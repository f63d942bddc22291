"""What compiling says and to whom, and that no state of the cache on disk keeps a kernel from running."""

import errno
import gc
import os
import subprocess
import sys
from contextlib import suppress

import numba
import numpy as np
import pytest

from boundrec.solvers import compiling

COMMAND = [sys.executable, "-c", "from boundrec.cli import main; main()"]
SAID = "Compiling, first run only"
FIT = """
from boundrec import MF
MF(2, solver="sgd", max_iter=1, random_state=0).fit([("ann", "tea"), ("bob", "rum")], [1.0, 2.0])
"""


def answer(x):
    return x + 41.0


def kernel(monkeypatch, folder):
    """A small kernel with its cache in a folder, as a process that has just begun would make it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    return compiling.compiled(answer, set())


def runs(made):
    """Whether a kernel runs, and whether it had to be compiled for that."""
    assert made(1.0) == 42.0
    return sum(made.stats.cache_misses.values()) == 1


@pytest.fixture
def quiet(monkeypatch):
    """Whatever was compiled before is forgotten, and this module's kernel counts as one of boundrec's."""
    monkeypatch.setattr(compiling._notes, "compiles", False)
    monkeypatch.setattr(compiling._notes, "cannot_keep", False)
    monkeypatch.setattr(answer, "__module__", "boundrec.solvers.kernels")


class Watch(numba.core.event.Listener):
    """Whether the collector works when a compilation has begun."""

    def __init__(self):
        self.seen = []

    def on_start(self, happening):
        self.seen.append(gc.isenabled())

    def on_end(self, happening):
        pass


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("given", [1.0, "one"])
def test_the_collector_rests_while_a_kernel_is_compiled_and_is_then_as_it_was(monkeypatch, tmp_path, quiet, on, given):
    watch, was_on = Watch(), gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with numba.core.event.install_listener("numba:compile", watch), suppress(numba.TypingError):
            kernel(monkeypatch, tmp_path)(given)
        assert gc.isenabled() is on
    finally:
        (gc.enable if was_on else gc.disable)()
    assert watch.seen == [False]


def test_the_collector_goes_on_while_somebody_elses_function_is_compiled():
    watch = Watch()
    with numba.core.event.install_listener("numba:compile", watch):
        numba.njit(lambda x: x)(1)
    assert watch.seen == [gc.isenabled()]


# --- parts ----------------------------------------------------------------------------------------------------


@compiling.part
def square(x):
    return x * x


@compiling.part
def length(vector):
    total = 0.0
    for k in range(vector.shape[0]):
        total += square(vector[k])
    return np.sqrt(total)


def longest(vectors, out):
    for i in range(vectors.shape[0]):
        out[0] = max(out[0], length(vectors[i]))


def test_a_kernel_with_parts_of_parts_computes_what_python_does_and_is_kept_as_one(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    vectors, out = np.random.default_rng(0).normal(size=(7, 3)), np.zeros(1)
    compiling.compiled(longest)(vectors, out)
    assert out[0] == pytest.approx(np.linalg.norm(vectors, axis=1).max(), rel=1e-14)
    assert [file.name.split("-")[0] for file in tmp_path.rglob("*.nbc")] == ["test_compiling.longest"]
    again, out = compiling.compiled(longest), np.zeros(1)
    again(vectors, out)
    assert sum(again.stats.cache_hits.values()) == 1
    assert out[0] == pytest.approx(np.linalg.norm(vectors, axis=1).max(), rel=1e-14)


def element(x, k):
    return x[k]


def two_elements(inner):
    @compiling.compiled
    def outer(x, k):
        return inner(x, 0) + inner(x, 1) + inner(x, k)

    return outer


def test_a_part_has_one_form_for_all_whole_numbers_that_are_written_out():
    inner = compiling.part(element)
    assert two_elements(inner)(np.array([1.0, 2.0, 4.0]), 2) == 7.0
    assert len(inner.overloads) == 1


def halved(x):
    out = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        out[k] = 0.5 * x[k]
    return out


def first_of(inner):
    @compiling.compiled
    def outer(x):
        return inner(x)[0]

    return outer


def test_a_part_makes_arrays_only_where_it_is_said_to_make_room():
    assert first_of(compiling.part(halved, makes_room=True))(np.array([3.0])) == 1.5
    with pytest.raises(numba.TypingError, match="array"):
        first_of(compiling.part(halved))(np.array([3.0]))


def test_a_part_that_python_calls_is_compiled_by_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    alone = compiling.part(length.py_func)
    for vector in (np.array([3.0, 4.0]), np.array([3, 4]), np.array([3.0, 4.0], np.float32)):
        assert alone(vector) == 5.0
        assert alone(vector) == 5.0
    with pytest.raises(TypeError, match="argument"):
        alone()
    with pytest.raises(numba.TypingError):
        alone("three, four")
    assert alone(np.array([3.0, 4.0])) == 5.0


# --- what is said ---------------------------------------------------------------------------------------------


def test_the_first_run_says_that_it_compiles_and_the_second_does_not(tmp_path):
    """In a script that takes warnings for errors, and in the command, which compiles what the script did not."""
    table = tmp_path / "ratings.csv"
    table.write_text("user,item,rating\nann,tea,1\nbob,rum,2\n")
    command = [
        *COMMAND,
        "fit",
        table,
        "-o",
        tmp_path / "model.safetensors",
        "--model",
        "nmf",
        "--k",
        "1",
        "--sweeps",
        "1",
    ]
    script = [sys.executable, "-W", "error", "-c", FIT]
    for arguments, expected in ((script, 1), (command, 1), (command, 0)):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(SAID) == expected, done.stderr
        assert SAID not in done.stdout


@pytest.mark.usefixtures("quiet")
def test_compiling_is_said_once_on_stderr_when_it_happens_and_not_when_kernels_are_loaded(
    monkeypatch, tmp_path, capsys
):
    first, second = kernel(monkeypatch, tmp_path), kernel(monkeypatch, tmp_path)
    assert capsys.readouterr().err == ""
    assert runs(first)
    assert first(1) == 42  # another type, compiled again
    assert capsys.readouterr().err == f"{SAID}: boundrec's kernels take up to a minute.\n"
    assert compiling.has_compiled()
    compiling._notes.compiles = False
    assert not runs(second)
    assert capsys.readouterr().err == ""
    assert not compiling.has_compiled()


def test_without_a_compiler_it_is_said_that_there_must_be_one():
    """Kernels name what only the processor has: as Python they mean nothing."""
    code = "from boundrec import MBMF; MBMF(n_factors=2).fit([(1, 2), (2, 1)], [1, 2])"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ImportError: NUMBA_DISABLE_JIT is set, but boundrec's kernels")


def test_what_others_compile_is_not_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compiling._notes, "compiles", False)
    assert runs(kernel(monkeypatch, tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("quiet")
def test_workers_of_a_pool_do_not_say_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compiling.multiprocessing, "parent_process", lambda: "the one that says it")
    assert runs(kernel(monkeypatch, tmp_path))
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("stderr", [None, open(os.devnull, "w")])  # noqa: SIM115
def test_compiling_goes_on_where_nobody_listens(monkeypatch, tmp_path, stderr):
    if stderr is not None:
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    assert runs(kernel(monkeypatch, tmp_path))


# --- what is kept ---------------------------------------------------------------------------------------------


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "empty": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "one bit flipped": flipped,
    "garbage": lambda content: b"\xff" * len(content),
    "something else": lambda content: b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_anew_and_whole_again(monkeypatch, tmp_path, ending, damage):
    assert runs(kernel(monkeypatch, tmp_path))
    assert not runs(kernel(monkeypatch, tmp_path))
    (file,) = tmp_path.rglob(f"*.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    assert runs(kernel(monkeypatch, tmp_path))
    assert not runs(kernel(monkeypatch, tmp_path))


def test_where_machine_code_is_gone_it_is_compiled_anew(monkeypatch, tmp_path):
    assert runs(kernel(monkeypatch, tmp_path))
    (file,) = tmp_path.rglob("*.nbc")
    file.unlink()
    file.mkdir()
    assert runs(kernel(monkeypatch, tmp_path))


@pytest.mark.usefixtures("quiet")
def test_on_a_full_disk_kernels_run_and_the_next_compilation_is_foretold(monkeypatch, tmp_path, capsys):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compiling._SealedFiles, "save", full)
    monkeypatch.setattr(compiling._SealedFiles, "flush", full)
    assert runs(kernel(monkeypatch, tmp_path))
    assert runs(kernel(monkeypatch, tmp_path))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(SAID)
    assert lines[1].startswith(f"The next run compiles again, for kernels cannot be kept in {tmp_path}")
    assert lines[1].endswith(": No space left on device.")


@pytest.mark.usefixtures("quiet")
def test_without_a_folder_for_the_cache_every_run_compiles_and_says_so(monkeypatch, tmp_path, capsys):
    def nowhere(self, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiling._Cache, "__init__", nowhere)
    assert runs(kernel(monkeypatch, tmp_path))
    told = "Compiling, in every run, for there is no folder to keep the kernels in: set NUMBA_CACHE_DIR to one.\n"
    assert capsys.readouterr().err == told


@pytest.mark.usefixtures("quiet")
def test_what_an_interrupted_compilation_left_behind_is_not_kept(monkeypatch, tmp_path, capsys):
    def unfinished(*arguments):
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(compiling._SealedFiles, "save", unfinished)
    assert runs(kernel(monkeypatch, tmp_path))
    assert capsys.readouterr().err.count("\n") == 1
