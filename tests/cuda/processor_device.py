"""Stands in for a device: the same kernels, compiled for the processor, with one thread a block.

So every line of them can be tested where there is no device; what it cannot show is what threads do
to each other.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

from privboost.cuda.device import source

_PRELUDE = """
#include <algorithm>
#include <cmath>
using std::max;
using std::min;
using std::sqrt;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __syncthreads()
#define SHARED_BUFFER static unsigned char buffer[1 << 18] __attribute__((aligned(16)));
struct Number3 { unsigned x; };
static Number3 threadIdx = {0}, blockIdx = {0}, blockDim = {1}, gridDim = {1};
struct alignas(8) int2 { int x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
template <typename T> static inline T atomicAdd(T* at, T value) {
  T old = *at;
  *at += value;
  return old;
}
extern "C" void set_block(unsigned block, unsigned blocks) {
  blockIdx.x = block, gridDim.x = blocks;
}
"""


_ONE_AT_A_TIME = Lock()
"""Kernels compiled for the processor have one buffer of shared memory."""


def compiler():
    return shutil.which("g++")


@cache
def library():
    folder = Path(tempfile.mkdtemp(prefix="privboost-kernels-"))
    text, built = folder / "kernels.cpp", folder / "kernels.so"
    text.write_text(_PRELUDE + source())
    how = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-w", "-fwrapv"]
    subprocess.run([compiler(), *how, "-o", str(built), str(text)], check=True)
    return ctypes.CDLL(str(built))


class ProcessorDevice:
    """A device whose memory is apart from the host's arrays, as that of a GPU is."""

    resident, processors, shared_memory, shared_memory_all, threads = (
        True,
        3,
        200_000,
        228 * 1024,
        1,
    )
    spare = 2**14

    def __init__(self, shared_memory=shared_memory, free=2**40):
        self.shared_memory, self.launched, self._free = shared_memory, set(), free

    def with_new_stream(self):
        return self

    def activated(self):
        return nullcontext()

    def free(self):
        return self._free

    def launch(self, kernel, task, blocks, shared=0, threads=None):
        assert shared <= self.shared_memory
        self.launched.add(kernel)
        handed = np.empty(task.packed().nbytes + 16, dtype=np.uint8)
        handed = handed[-handed.ctypes.data % 16 :][: task.packed().nbytes]
        handed[:] = task.packed()
        with _ONE_AT_A_TIME:
            for block in range(max(blocks, 1)):
                library().set_block(block, max(blocks, 1))
                getattr(library(), kernel)(ctypes.c_void_p(handed.ctypes.data))

    def put(self, array):
        return self._aligned(array.shape, array.dtype, array)

    def zeros(self, shape, kind):
        return self._aligned(shape, np.dtype(kind), 0)

    allocate = scratch = pinned_zeros = zeros

    def copy_to_device(self, array):
        return self.put(array)

    def empty_bytes(self, size):
        return self._aligned(size, np.dtype(np.uint8), 0x5A)

    def pinned_bytes(self, size):
        return np.full(size, 0xA5, dtype=np.uint8)

    def record_event(self):
        return None

    def copy_to_host(self, array, to):
        to[...] = array

    def synchronize(self):
        pass

    finish = synchronize

    def clear(self, array, begin, end):
        array[begin:end] = 0

    def _aligned(self, shape, kind, values):
        size = int(np.prod(shape)) * kind.itemsize
        memory = np.empty(size + 64, dtype=np.uint8)
        array = memory[-memory.ctypes.data % 64 :][:size].view(kind).reshape(shape)
        array[...] = values
        return array

    def write(self, array, first, values):
        array[first : first + len(values)] = values

    def copy_into(self, values, to, first):
        self.write(to, first, values)

    def address(self, array):
        return 0 if array is None else array.ctypes.data

    target = address

    def fetch(self, array):
        return array.copy()

    def free_memory(self):
        pass
