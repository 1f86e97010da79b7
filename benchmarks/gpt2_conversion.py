#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a checkpoint by PyTorch's own functions, and prints a line of JSON as gpt2 does.

    gpt2_conversion.py FROM TO

From a directory of DCP's to a file (`dcp_to_torch_save`), or from a file to such a directory."""
import json, os, resource, sys, time, warnings

warnings.filterwarnings("ignore")
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp


def main():
    source, target = sys.argv[1:]
    convert = dcp_to_torch_save if os.path.isdir(source) else torch_save_to_dcp
    start = time.perf_counter()
    convert(source, target)
    took = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"mode": convert.__name__, "ranks": 1, "bytes": 0, "times": [round(took, 4)],
                      "maxrss_mb": round(used.ru_maxrss / 1024, 1),
                      "cpu_s": round(used.ru_utime + used.ru_stime, 2)}))


if __name__ == "__main__": main()
