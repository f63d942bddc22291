"""How kernels are compiled: at their first call, said once when it happens, and kept on disk where that is possible.

What is on disk is sealed by a checksum. Whatever is wrong with it, or with the disk, a kernel is compiled anew.
"""

import gc
import hashlib
import io
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

if config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise ImportError("NUMBA_DISABLE_JIT is set, but boundrec's kernels run compiled alone: unset it.")

#: Sums may be reordered and contracted by the compiler (once, when it compiles), but NaN and inf still count.
MATHS = {"contract", "reassoc", "nsz", "arcp"}
#: The phrase by which the note is known.
COMPILING = "Compiling, first run only"


def compiled(function: Callable[..., Any], maths: set[str] = MATHS) -> Callable[..., Any]:
    """Compile at the first call, release the GIL, and keep the machine code on disk where that is possible."""
    options: dict[str, Any] = {"nogil": True, "fastmath": maths, "error_model": "numpy", "no_cfunc_wrapper": True}
    dispatcher: Any = njit(**options)(function)
    with suppress(RuntimeError):  # no folder for the cache can be written: compile afresh in every process
        dispatcher._cache = _Cache(function)
    kernel: Callable[..., Any] = dispatcher
    return kernel


def part(function: Callable[..., Any], makes_room: bool = False, written_out: bool = False) -> Callable[..., Any]:
    """Compile as a part of the kernels that call it, and not by itself.

    Numba makes of every function a library with machine code and ways in from Python, and optimises it; then it is
    linked into those that call it, and optimised once more there. A part is only translated. Who calls one from Python,
    as tests do, has it compiled like a kernel.

    A part counts no references, which would take a third of the time where rows are short: what it is given is held by
    who calls it. So it can neither make nor return arrays, but where it ``makes_room``.

    A part is called unless the compiler finds it small, or it is ``written_out``: a call hands over seven numbers for
    every array, which tells where it is made for every row and rows are short.
    """
    options = {"nopython": True, "nogil": True, "fastmath": MATHS, "error_model": "numpy", "_nrt": makes_room}
    options["forceinline"] = written_out
    no_ways_in = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    kernel: Callable[..., Any] = _Part(function, {}, {**options, **no_ways_in}, _PartCompiler)
    return kernel


def has_compiled() -> bool:
    """Whether this process has compiled a kernel, rather than taken all from the disk."""
    return _notes.compiles


# --- parts of kernels -----------------------------------------------------------------------------------------


class _PartLibrary(JITCodeLibrary):
    """The code of a part and of its own parts, as it was translated: those that link it optimise the whole."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


#: Passes for what no part has: functions within it, and expressions of whole arrays.
_OF_NO_PART = {"InlineClosureLikes", "NopythonRewrites"}


class _PartCompiler(Compiler):
    """Numba's own, into a library of a part."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.flags.no_compile = True
        pipelines: list[Any] = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [one for one in pipeline.passes if one[0].__name__ not in _OF_NO_PART]
        return pipelines


class _Part(CPUDispatcher):
    """Called by kernels only; from Python it leads to a kernel made of the same function."""

    _alone: Callable[..., Any] | None = None

    def get_call_template(self, arguments: Any, named: Any) -> Any:
        """One form for all whole numbers: Numba would translate a part again for each that is written out in a call."""
        return super().get_call_template(tuple(map(types.unliteral, arguments)), named)

    def add_overload(self, result: Any) -> None:
        name = object()  # by which other kernels find it, in the place of a way in
        self.targetctx.insert_user_function(name, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result._replace(entry_point=name)

    def _compile_for_args(self, *arguments: Any, **named: Any) -> Callable[..., Any]:
        if self._alone is None:
            self._alone = compiled(self.py_func)
        return self._alone


# --- what is said ---------------------------------------------------------------------------------------------


class _Notes(event.Listener):
    """Hears from Numba that it starts to compile, and passes it on to whoever waits, once.

    A line on stderr: a warning would end a program that takes warnings for errors. Workers of a pool say nothing.
    """

    compiles, cannot_keep = False, False

    def on_start(self, happening: Any) -> None:
        dispatcher = happening.data["dispatcher"]
        if self.compiles or not dispatcher.py_func.__module__.startswith("boundrec."):
            return
        self.compiles = True
        if dispatcher.stats.cache_path is None:
            _say("Compiling, in every run, for there is no folder to keep the kernels in: set NUMBA_CACHE_DIR to one.")
        else:
            _say(f"{COMPILING}: boundrec's kernels take up to a minute.")

    def on_end(self, happening: Any) -> None:
        pass

    def on_failure(self, folder: str, error: OSError) -> None:
        """Take it back where the first run will not be the only one."""
        if not self.cannot_keep:
            self.cannot_keep = True
            _say(f"The next run compiles again, for kernels cannot be kept in {folder}: {error.strerror}.")


def _say(message: str) -> None:
    if multiprocessing.parent_process() is None and sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody is listening
            print(message, file=sys.stderr, flush=True)


_notes = _Notes()
event.register("numba:compile", _notes)


# --- what rests meanwhile --------------------------------------------------------------------------------------


class _Collector(event.Listener):
    """Python's collector of cycles rests while a kernel is compiled, of which it would take a sixth of the time.

    Numba compiles under a lock of its own: one kernel at a time, and within it what it calls.
    """

    _depth, _was_on = 0, False

    def on_start(self, happening: Any) -> None:
        if not self._depth and not happening.data["dispatcher"].py_func.__module__.startswith("boundrec."):
            return
        if not self._depth:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, happening: Any) -> None:
        if not self._depth:
            return
        self._depth -= 1
        if not self._depth and self._was_on:
            gc.enable()


event.register("numba:compile", _Collector())


# --- what is kept ---------------------------------------------------------------------------------------------


class _SealedFiles(IndexDataCacheFile):
    """Numba's files with a checksum at the end of each, for damaged machine code may do anything."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + _seal(content.getvalue()))

    def _load_index(self) -> Any:
        if os.path.exists(self._index_path):
            _check_seal(self._index_path)
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        _check_seal(self._data_path(name))
        return super()._load_data(name)


def _seal(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _check_seal(path: str) -> None:
    with open(path, "rb") as file:
        content = file.read()
    size = hashlib.sha256().digest_size
    if content[-size:] != _seal(content[:-size]):
        raise ValueError(f"{path} is damaged")


def _stamp_of_sources() -> str:
    """Changes with any file that has kernels: Numba looks at a function's own, but kernels call those of others."""
    files = sorted(Path(__file__).parents[1].glob("*/*kernels.py"))
    return repr([(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files])


class _Cache(FunctionCache):
    """Numba's cache, whose errors count as finding nothing and as keeping nothing."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _SealedFiles(self._cache_path, self._impl.filename_base, _stamp_of_sources())

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # unpickling what is damaged may raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        try:
            super().save_overload(*arguments)
        except OSError as error:
            _notes.on_failure(self._cache_path, error)
        except Exception:
            pass  # an interrupted compilation leaves machine code that cannot be kept
