#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_kernel_tuner_cases.py: writes the files of tests/data/kernel_tuner by Kernel Tuner itself (pip install kernel_tuner;
the files that are there are of 1.5.0):

    cache.json  a cache
    open.json   the same cache as an interrupted run leaves it
    t4.json     the same results as T4
    t1.json     a description of the problem in T1

The kernel is C++ that g++ compiles, so no GPU is needed. Times differ from run to run."""
import json
import os
import shutil
import tempfile

import jsonschema
import numpy as np
from kernel_tuner import tune_kernel
from kernel_tuner.file_utils import input_file_schema, store_output_file

SOURCE = r"""
#include <chrono>
#if FAULT
#error "uses too much shared data"
#endif
extern "C" float scale(float *out, const float *in, int n) {
    const auto begin = std::chrono::steady_clock::now();
    for (int b = 0; b < n; b += block_size_x)
        for (int i = b; i < n && i < b + block_size_x; i++) out[i] = FACTOR * in[i];
    return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
}
"""
PARAMS = {"block_size_x": [64, 512], "FACTOR": [0.5, 1e20], "FAULT": [0, 1]}
CONDITION = "FAULT == 0 or block_size_x in [64, 128]"


def t1():
    types = {"block_size_x": "int", "FACTOR": "float", "FAULT": "int"}
    return {
        "General": {"FormatVersion": 1, "TimeUnit": "Milliseconds"},
        "ConfigurationSpace": {
            "TuningParameters": [{"Name": n, "Type": types[n], "Values": str(v)} for n, v in PARAMS.items()],
            "Conditions": [{"Parameters": ["FAULT", "block_size_x"], "Expression": CONDITION}],
        },
        "KernelSpecification": {
            "Device": {"Name": "A processor"},
            "Language": "CUDA",
            "KernelName": "scale",
            "KernelFile": "scale.cu",
            "GlobalSize": {"X": "ProblemSize[0]"},
            "LocalSize": {"X": "block_size_x"},
            "ProblemSize": [4096],
        },
    }


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "kernel_tuner")
    os.makedirs(out, exist_ok=True)
    cache, results = os.path.abspath(os.path.join(out, "cache.json")), os.path.abspath(os.path.join(out, "t4.json"))
    n = np.int32(4096)
    data = np.random.rand(n).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found, _ = tune_kernel("scale", SOURCE, int(n), [np.zeros_like(data), data, n], PARAMS, lang="C",
                               compiler="g++", iterations=3, restrictions=[CONDITION], cache="new.json")
        shutil.move("new.json", cache)
    store_output_file(results, found, PARAMS)
    with open(cache) as f:
        text = f.read()
    with open(os.path.join(out, "open.json"), "w") as f:
        f.write(text[: text.rindex("\n", 0, text.rindex('{"block_size_x"'))])
    jsonschema.validate(t1(), input_file_schema()[1])
    with open(os.path.join(out, "t1.json"), "w") as f:
        json.dump(t1(), f, indent=1)
        f.write("\n")


main()
