"""A CUDA program that obeys commands: ``python cuda.py``. Needs the driver and Python 3.9 only.

Each line of standard input is a command, and each gets one line of JSON as its reply:

    {"command": "open"}                      create the CUDA context
    {"command": "allocate", "bytes": 1024}   allocate device memory
    {"command": "memory"}                    free and total memory that CUDA reports
    {"command": "spin", "seconds": 1.5}      keep the GPU busy
    {"command": "fault"}                     write to an invalid address

A reply has ``error``, the number of the CUDA error, if the command failed.
"""

import ctypes
import json
import sys
import time
from typing import Any

_KERNEL_SECONDS = 0.01
_PTX = b"""
.version 6.0
.target sm_70
.address_size 64

.visible .entry spin(.param .u64 duration)
{
    .reg .pred %again;
    .reg .u64 %first, %now, %passed, %duration;
    ld.param.u64 %duration, [duration];
    mov.u64 %first, %globaltimer;
LOOP:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %first;
    setp.lt.u64 %again, %passed, %duration;
    @%again bra LOOP;
    ret;
}

.visible .entry fault()
{
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 64;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
"""


class CudaError(Exception):
    """A call of the driver failed, with the number of the CUDA error."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: CUDA error {code}")
        self.code = code


class Program:
    """One process with one CUDA context. Every method raises ``CudaError`` if it fails."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._functions: dict[str, ctypes.c_void_p] = {}

    def open(self) -> dict[str, Any]:
        """Create the context and load the kernels."""
        began = time.monotonic()
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_PTX))
        for name in ("spin", "fault"):
            function = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self._functions[name] = function
        return {"seconds": round(time.monotonic() - began, 3)}

    def allocate(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - from JSON
        """Allocate device memory until the process ends."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(options["bytes"]))
        return {}

    def memory(self) -> dict[str, Any]:
        """Return the free and the total memory that CUDA reports, in bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"free": free.value, "total": total.value}

    def spin(self, seconds: float) -> dict[str, Any]:
        """Run kernels for a time; return how many."""
        nanoseconds = ctypes.c_uint64(int(_KERNEL_SECONDS * 1e9))
        began, kernels = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            self._launch("spin", nanoseconds)
            kernels += 1
        return {"kernels": kernels, "seconds": round(time.monotonic() - began, 3)}

    def fault(self) -> dict[str, Any]:
        """Write to an invalid address, which is a fatal fault."""
        self._launch("fault")
        return {}

    def _launch(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 - ctypes values
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(
            *(ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in arguments)
        )
        shape = (1, 1, 1, 32, 1, 1)
        self._call("cuLaunchKernel", self._functions[name], *shape, 0, None, pointers, None)
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 - ctypes values
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(name, code)


def main() -> None:
    """Obey commands until the end of the input."""
    program = Program()
    commands = {
        each.__name__: each
        for each in (program.open, program.allocate, program.memory, program.spin, program.fault)
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = commands[request.pop("command")](**request)
        except CudaError as error:
            reply = {"error": error.code, "message": str(error)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
