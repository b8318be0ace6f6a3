# SPDX-License-Identifier: Apache-2.0
"""Chooses a kernel's configuration at run time: the C header tilewright/select.h for Python, by ctypes.

    s = Selector("gemm.select")
    s.choose({"m": 4096, "n": 4096, "k": 4096})  # {"BM": 128, "BN": 256, "BK": 64, "warps": 8, "stages": 3}

The library is libtilewright-select.so, which needs nothing but the C library, or libtilewright.so. It is looked for
where the dynamic linker looks, and in the build folders of the tree; $TILEWRIGHT_SELECT_LIBRARY names another one."""
import ctypes
import os

AXES = 6


class Error(Exception):
    """The library refused a file or a problem. The text is one line, which begins with the name of the file or the
    kernel."""


class Diag(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("path", ctypes.c_char * 1024), ("offset", ctypes.c_int64),
                ("line", ctypes.c_int), ("column", ctypes.c_int), ("message", ctypes.c_char * 4096)]


class Info(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("unit", ctypes.c_char_p), ("axes", ctypes.c_char_p * AXES),
                ("n_axes", ctypes.c_int), ("device", ctypes.c_char_p), ("alike", ctypes.c_char_p),
                ("architecture", ctypes.c_char_p), ("about", ctypes.c_char_p), ("macros", ctypes.c_int),
                ("exact", ctypes.c_int), ("bytes", ctypes.c_size_t)]


class Selection(ctypes.Structure):
    _fields_ = [("source", ctypes.c_int), ("macro", ctypes.c_int), ("micro", ctypes.c_int),
                ("config", ctypes.c_char_p), ("time", ctypes.c_double), ("low", ctypes.c_double),
                ("high", ctypes.c_double), ("remembered", ctypes.c_bool)]


def find_library():
    """Opens the library."""
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.join(here, "..", "..")
    paths = [os.path.join(tree, folder, "libtilewright-select.so.0") for folder in ("build", "build-portable")]
    named = os.environ.get("TILEWRIGHT_SELECT_LIBRARY")
    tried = [named] if named else ["libtilewright-select.so.0", *paths, "libtilewright.so.0"]
    why = ""
    for path in tried:
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            why = why if why and not os.path.exists(path) else str(e)
    raise Error(f"no library of Tilewright: {why}; $TILEWRIGHT_SELECT_LIBRARY names it")


def declare(lib):
    lib.tw_selector_open.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.POINTER(Diag)]
    lib.tw_selector_close.argtypes = [ctypes.c_void_p]
    lib.tw_selector_close.restype = None
    lib.tw_selector_describe.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
    lib.tw_selector_describe.restype = None
    lib.tw_select_choose.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_uint,
                                     ctypes.POINTER(Selection)]
    return lib


def values_of(words):
    """Returns the values of "BM=64 by=torch" by their names: whole numbers or words."""
    pairs = (word.split("=", 1) for word in words.split())
    return {name: int(value) if value.lstrip("-").isdigit() else value for name, value in pairs}


def words_of(values):
    """Returns values by their names as words, "BM=64 by=torch"."""
    return " ".join(f"{name}={value}" for name, value in values.items())


class Selector:
    """An artefact. One thread at a time may use it, since it keeps the last answer in a buffer."""

    calls = None

    def __init__(self, path):
        if Selector.calls is None:
            Selector.calls = declare(find_library())
        self.handle, diag, info = ctypes.c_void_p(), Diag(), Info()
        if self.calls.tw_selector_open(ctypes.byref(self.handle), os.fsencode(path), ctypes.byref(diag)):
            self.handle = None
            raise Error(f"{path}: {diag.message.decode(errors='replace')}")
        self.calls.tw_selector_describe(self.handle, ctypes.byref(info))
        self.axes = [info.axes[i].decode() for i in range(info.n_axes)]
        self.kernel, self.device, self.bytes = info.kernel.decode(), info.device.decode(), info.bytes
        self.problem, self.out = (ctypes.c_int64 * AXES)(), Selection()
        self.asked = self.calls.tw_select_choose
        self.read = {}  # Configurations by their words.

    def close(self):
        """Closes the artefact. choose() raises an Error from then on."""
        if self.handle:
            self.calls.tw_selector_close(self.handle)
        self.handle = None

    def choose(self, problem, flags=0):
        """Returns the configuration for a problem, which has a value for each axis. The caller must not change the
        result, which later calls return again."""
        if self.handle is None:
            raise Error(f"{self.kernel}: the artefact is closed")
        for i, axis in enumerate(self.axes):
            self.problem[i] = problem[axis]
        status = self.asked(self.handle, self.problem, flags, ctypes.byref(self.out))
        if status:
            raise Error(f"{self.kernel}: nothing can be chosen for {problem}: status {status}")
        words = self.out.config
        config = self.read.get(words)
        if config is None:
            config = self.read[words] = values_of(words.decode())
        return config

    def predicted(self):
        """Returns the predicted time of the last choice in the artefact's unit. 0: it is unknown."""
        return self.out.time
