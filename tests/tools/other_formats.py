# SPDX-License-Identifier: Apache-2.0
"""The program cairn and what is no checkpoint of DCP.

Usage: other_formats.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import pathlib
import sys
import tempfile
from program import GOLDEN, cairn, check, end, one_sentence, said


def safetensors(tmp):
    hf = GOLDEN / "formats/hf/transformers_sharded"
    r = cairn("ls", hf)
    check("ls: Hugging Face's directory", r.returncode == 0 and
          b"transformer.h.0.attn.c_attn.weight  float32 [16, 48]  1 chunk" in r.stdout, said(r))
    r = cairn("reshard", hf, tmp / "of hf", "--ranks", 3)
    check("reshard: Hugging Face's directory", r.returncode == 1 and
          b"not copied: 'expected.json'" in r.stdout, said(r))
    r = cairn("diff", hf, tmp / "of hf")
    check("diff: two formats", r.returncode == 0 and b"equal: " in r.stdout, said(r))
    one = GOLDEN / "formats/safetensors/numpy/model.safetensors"
    r = cairn("reshard", one, tmp / "of a file", "--ranks", 2)
    check("reshard: a file of safetensors", r.returncode == 0, said(r))
    r = cairn("cat", one, "u16", "--raw")
    check("cat: a file of safetensors", r.returncode == 0 and r.stdout ==
          cairn("cat", tmp / "of a file", "u16", "--raw").stdout, said(r))
    (tmp / "hf").mkdir()
    (tmp / "hf" / "model.safetensors").write_bytes(b"x")
    r = cairn("ls", tmp / "hf")
    check("ls: names a file of safetensors that is none", r.returncode == 2 and
          one_sentence(r) and b"hf/model.safetensors" in r.stderr, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        safetensors(pathlib.Path(d))
    sys.exit(end())


main()
