# SPDX-License-Identifier: Apache-2.0
"""tilewright/kernel.h for Python, by ctypes: kernels by their words, bound to device addresses, launched on a stream."""
import ctypes
import os


class Error(Exception):
    """A call failed. The text is the library's."""


class Diag(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("path", ctypes.c_char * 1024), ("offset", ctypes.c_int64),
                ("line", ctypes.c_int), ("column", ctypes.c_int), ("message", ctypes.c_char * 4096)]


class Buffer(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_size_t), ("align", ctypes.c_int),
                ("written", ctypes.c_bool), ("zeroed", ctypes.c_bool)]


class Gpu:
    """A GPU, "cuda:0" for example, or "emulator"."""

    def __init__(self, library, device):
        self.lib, self.diag, self.handle = ctypes.CDLL(os.path.abspath(library)), Diag(), ctypes.c_void_p()
        self.lib.tw_gpu_kernel_buffer.restype = ctypes.POINTER(Buffer)
        self.call("tw_gpu_open", ctypes.byref(self.handle), device.encode())

    def call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments, ctypes.byref(self.diag)):
            raise Error(self.diag.message.decode(errors="replace"))

    def kernel(self, words, configuration=""):
        return Kernel(self, words, configuration)


class Kernel:
    """A kernel. Its launches must not outlive it."""

    def __init__(self, gpu, words, configuration):
        self.gpu, self.handle, self.words, self.configuration = gpu, ctypes.c_void_p(), words, configuration
        gpu.call("tw_gpu_kernel_open", ctypes.byref(self.handle), gpu.handle, words.encode(), configuration.encode())

    def buffers(self):
        """Returns the bytes of each buffer by its name."""
        of = (self.gpu.lib.tw_gpu_kernel_buffer(self.handle, i)
              for i in range(self.gpu.lib.tw_gpu_kernel_buffers(self.handle)))
        return {b.contents.name.decode(): b.contents.bytes for b in of}

    def launch(self, **addresses):
        return Launch(self, addresses)

    def close(self):
        self.gpu.lib.tw_gpu_kernel_close(self.handle)


class Launch:
    """A launch, with every buffer bound to an address."""

    def __init__(self, kernel, addresses):
        self.gpu, self.kernel, self.handle = kernel.gpu, kernel, ctypes.c_void_p()
        self.gpu.call("tw_gpu_launch_open", ctypes.byref(self.handle), kernel.handle)
        for name, address in addresses.items():
            self.gpu.call("tw_gpu_launch_bind", self.handle, name.encode(), ctypes.c_uint64(address))

    def run(self, stream=None):
        self.gpu.call("tw_gpu_launch_run", self.handle, ctypes.c_void_p(stream))

    def close(self):
        self.gpu.lib.tw_gpu_launch_close(self.handle)
