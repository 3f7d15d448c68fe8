"""Records the calls that some functions (roots) cause, also in tasks and threads they start."""

import json
import os
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from dis import opmap
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

ROOTS: Final = "CALLTRACE_ROOTS"
FOLDER: Final = "CALLTRACE_FOLDER"
_YIELD: Final = opmap["YIELD_VALUE"]


@dataclass(slots=True)
class _Trace:
    root: str
    frame: FrameType
    calls: dict[tuple[CodeType | None, CodeType], tuple[str, str, str, str]] = field(
        default_factory=dict
    )


_current: ContextVar[_Trace | None] = ContextVar("calltrace", default=None)
_running: ContextVar[FrameType | None] = ContextVar("calltrace-running", default=None)
"""The function that runs in this context: a task inherits the one that created it."""


class _Recorder:
    """The profile function of all threads."""

    def __init__(self, roots: frozenset[str], folder: Path) -> None:
        self._roots = roots
        self._file = folder / f"{os.getpid()}.jsonl"
        self._modules: dict[CodeType, str | None] = {}
        self._seen: dict[int, FrameType] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in {"call", "return"} or (module := self._module(frame)) is None:
            return
        if event == "return":
            _running.set(self._caller(frame))
            self._ended(frame)
            return
        creator = _running.get()
        _running.set(frame)
        if id(frame) not in self._seen:  # else it is resumed
            self._called(frame, module, creator)

    def _called(self, frame: FrameType, module: str, creator: FrameType | None) -> None:
        code = frame.f_code
        # A comprehension or lambda runs where it stands, and a property is an attribute.
        if code.co_name.startswith("<") or _is_property(frame):
            return
        self._seen[id(frame)] = frame
        trace = _current.get()
        if code.co_qualname in self._roots and (trace is None or trace.frame is not frame):
            trace = _Trace(code.co_qualname, frame)
            _current.set(trace)
        if trace is None:
            return
        caller = self._caller(frame) or creator
        source = caller.f_code if caller else None
        if (source, code) not in trace.calls:
            names = (
                (self._module(caller) or "", source.co_qualname) if caller and source else ("", "")
            )
            trace.calls[source, code] = (*names, module, code.co_qualname)

    def _caller(self, frame: FrameType) -> FrameType | None:
        caller = frame.f_back
        while caller is not None and self._module(caller) is None:
            caller = caller.f_back
        return caller

    def _ended(self, frame: FrameType) -> None:
        if frame.f_code.co_code[frame.f_lasti] == _YIELD:
            return
        self._seen.pop(id(frame), None)
        trace = _current.get()
        if trace is not None and trace.frame is frame:
            _current.set(None)
            record = {"root": trace.root, "calls": list(trace.calls.values())}
            with self._file.open("a") as file:
                file.write(json.dumps(record) + "\n")

    def _module(self, frame: FrameType | None) -> str | None:
        if frame is None:
            return None
        code = frame.f_code
        if code not in self._modules:
            name = frame.f_globals.get("__name__") or ""
            generated = name.endswith(("_pb2", "_pb2_grpc"))
            ours = name.partition(".")[0].startswith("gputopo") and not generated
            # The body of a module is its import; generated methods of dataclasses have no module.
            ours = ours and code.co_name != "<module>" and not code.co_filename.startswith("<")
            self._modules[code] = name if ours else None
        return self._modules[code]


def _is_property(frame: FrameType) -> bool:
    first = frame.f_code.co_varnames[:1]
    if first != ("self",) or "self" not in frame.f_locals:
        return False
    return isinstance(getattr(type(frame.f_locals["self"]), frame.f_code.co_name, None), property)


def start() -> None:
    """Record in this process from now on, if the environment requests it."""
    roots, folder = os.environ.get(ROOTS), os.environ.get(FOLDER)
    if not roots or not folder:
        return
    recorder = _Recorder(frozenset(roots.split(",")), Path(folder))
    threading.setprofile(recorder)
    sys.setprofile(recorder)
