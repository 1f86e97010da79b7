#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles all headers that must stay free of Asio as one CUDA translation unit.

    plain.py PROJECT_ROOT NVCC
"""
import pathlib, subprocess, sys, tempfile

root, nvcc = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(root / "tests"))
import layering

headers = sorted(h for h in layering.house(root / "include").headers if layering.is_plain(h))
with tempfile.TemporaryDirectory() as tmp:
    unit = pathlib.Path(tmp) / "every.cu"
    unit.write_text("".join(f"#include <cairn/{h}>\n" for h in headers) +
                    "__global__ void add(float* x) { x[threadIdx.x] += 1; }\n")
    code = subprocess.run([nvcc, "-std=c++20", "-Werror", "all-warnings", "-Xcompiler",
                           "-Wall,-Wextra", f"-I{root / 'include'}", "-c", unit, "-o",
                           f"{tmp}/every.o"]).returncode
print(f"{len(headers)} headers in one .cu file: " + ("compiled" if code == 0 else "refused"))
sys.exit(code)
