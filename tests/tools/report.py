# SPDX-License-Identifier: Apache-2.0
"""`cairn report`: the page is well-formed, has every byte, and nothing in it is executed.

Usage: report.py CAIRN FIXTURES GOLDEN. Prints one line a check and `N passed, N failed`.
"""
import html.parser
import json
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from program import CAIRN, FIXTURES, GOLDEN, cairn, check, end, one_sentence, said

VOID = {"meta"}
# End tags that HTML lets a page omit.
OMITTED = {"li", "tr", "td", "th", "p"}
ALLOWED = {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "dl", "div",
           "dt", "dd", "ul", "li", "span", "svg", "g", "path", "text", "tspan", "details",
           "summary", "table", "thead", "tbody", "tr", "th", "td", "i", "b"}


class page(html.parser.HTMLParser):
    """Collects what a page has; `problems` says what is not well-formed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.problems, self.tags = [], [], set()
        self.maps, self.texts, self.headings = [], [], []
        self.policy = self.viewport = ""
        self.feed(text)
        self.close()
        self.problems += [f"<{t}> is not closed" for t in self.open if t not in OMITTED]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        if tag not in ALLOWED:
            self.problems.append(f"<{tag}>")
        for name, value in attrs.items():
            if name.startswith("on") or name in ("href", "src", "xlink:href"):
                self.problems.append(f"{name}={value}")
            if re.search(r"\b(nan|inf)\b", value or "", re.I):
                self.problems.append(f"{name}={value} is no number")
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]
        if attrs.get("name") == "viewport":
            self.viewport = attrs["content"]
        if tag == "svg" and "map" in attrs.get("class", ""):
            self.maps.append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        while self.open and self.open[-1] != tag and self.open[-1] in OMITTED:
            self.open.pop()
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside != "style":
            self.texts.append(data)
        if inside == "h2":
            self.headings.append(data)
        if inside == "title" and "svg" in self.open and self.maps and "details" not in self.open:
            self.maps[-1].append(data)


def made(out, *args):
    r = cairn("report", *args, "-o", out)
    text = out.read_text() if out.exists() else ""
    return r, text, page(text)


def bytes_of(titles):
    return sum(int(re.search(r"([\d,]+) bytes$", t)[1].replace(",", "")) for t in titles)


def listed(checkpoint):
    return json.loads(cairn("ls", checkpoint, "--json").stdout)


def formats(tmp):
    cases = sorted(p.parent / "checkpoint" for p in GOLDEN.glob("torch-*/*/expected.json"))
    cases += [GOLDEN / "formats/hf/transformers_sharded", GOLDEN / "formats/hf/dcp_sharded_3_ranks",
              GOLDEN / "formats/safetensors/numpy/model.safetensors",
              GOLDEN / "unknown_dtypes", GOLDEN / "rank_metadata/__0.metadata"]
    cases += sorted(GOLDEN.glob("formats/pt/*/*.pt"))
    check("there are samples of all formats", len(cases) > 15, cases)
    for case in cases:
        name = case.relative_to(GOLDEN)
        r, text, p = made(tmp / "page.html", case, "--verify")
        check(f"{name}: a page", r.returncode == 0 and text.endswith("</html>\n"), said(r))
        check(f"{name}: well-formed, nothing is loaded or run", not p.problems, p.problems[:5])
        check(f"{name}: says so itself, and fits a phone", "default-src 'none'" in p.policy and
              "width=device-width" in p.viewport)
        known = [x for x in listed(case) if x["kind"] != "unsupported"]
        drawn = [bytes_of(m) for m in p.maps]
        # The values of a file of torch.save are one pickle, of which none has a part.
        total = drawn[0] if case.suffix == ".pt" else sum(x["bytes"] for x in known)
        tensors = sum(x["bytes"] for x in known if x["kind"] == "tensor")
        check(f"{name}: both maps have all bytes", drawn == [total, total] and
              (case.suffix != ".pt" or tensors <= total <= case.stat().st_size), (total, drawn))
        check(f"{name}: every tensor that is not small has its name",
              all(any(t.startswith(x["fqn"] + "\n") for t in p.maps[0]) for x in known
                  if x["kind"] == "tensor" and x["bytes"] * 200 > total), known)
        words = "".join(p.texts)
        check(f"{name}: what is verified is said", "Verification" in p.headings and
              "All fine" in words, words[-300:])


def shares(tmp):
    _, text, p = made(tmp / "page.html", GOLDEN / "torch-2.14.1/meshes_4_ranks/checkpoint")
    words = " ".join(p.texts)
    check("ranks, files and boxes are there", {"Ranks", "Files", "How tensors are cut"} <=
          set(p.headings) and all(f"rank {r}" in words and f"__{r}_0.distcp" in words
                                  for r in range(4)), p.headings)
    check("a box is where it is", "[0:2, 0:6]" in words, words[-600:])
    _, text, p = made(tmp / "page.html", tmp / "base")
    save_id = re.search(r"\.([0-9a-f]{32})\.distcp", text)
    check("the save id is there", save_id and f">{save_id[1]}</dd>" in text)
    check("nothing is cut", "How tensors are cut" not in p.headings, p.headings)
    _, text, p = made(tmp / "page.html", tmp / "series/step_300")
    words = " ".join(p.texts)
    check("step and time of a checkpointer", re.search(r"Step +300", words) and
          re.search(r"Committed +20\d\d-\d\d-\d\dT", words), words[:400])
    damaged = tmp / "damaged"
    subprocess.run(["cp", "-r", tmp / "base", damaged], check=True)
    data = next(damaged.glob("*.distcp"))
    content = bytearray(data.read_bytes())
    content[content.index(struct.pack("<6f", *range(6))) + 1] ^= 1
    data.write_bytes(content)
    r, text, p = made(tmp / "page.html", damaged, "--verify")
    check("a finding is on the page, and in the exit code", r.returncode == 1 and
          "1 finding" in "".join(p.texts) and data.name in text, said(r))


def safetensors_file(path, tensors, fill=True):
    header, at = {}, 0
    for name, count in tensors:
        header[name] = {"dtype": "U8", "shape": [count], "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def hostile(tmp):
    names = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "a&amp;b'\"<",
             "</title></svg><style>*{display:none}</style>", "x\u202egnp.exe\u2066", "\x1b[2J\x07",
             "]]>-->", "nan", "é" * 400, ".." * 400]
    model = tmp / "<b>&\"'.safetensors"
    safetensors_file(model, [(n, 1000 + i) for i, n in enumerate(names)])
    r, text, p = made(tmp / "page.html", model)
    check("hostile names: well-formed", r.returncode == 0 and not p.problems,
          (said(r), p.problems[:5]))
    check("hostile names: both maps have all bytes",
          all(bytes_of(m) == sum(1000 + i for i in range(len(names))) for m in p.maps))
    check("hostile names: shown as they are", names[0] in "".join(p.texts))
    check("hostile names: no text changes its direction, no control characters",
          not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f\x7f]", text))
    check("long names are shortened", max(map(len, p.texts)) < 2000)
    d = tmp / "names"
    r, text, p = made(tmp / "page.html", d)
    check("names that are no text: well-formed", r.returncode == 0 and not p.problems, said(r))


def many(tmp):
    model = tmp / "many.safetensors"
    tensors = [(f"model.layers.{i // 1000}.experts.{i % 1000 // 10}.block_sparse_moe.w{i % 10}",
                1 + i * 7919 % 4000) for i in range(100000)]
    safetensors_file(model, tensors)
    r, text, p = made(tmp / "page.html", model)
    check("10^5 tensors: a small page", r.returncode == 0 and len(text.encode()) < 2e6,
          (said(r), len(text.encode())))
    check("10^5 tensors: both maps have all bytes",
          [bytes_of(m) for m in p.maps] == 2 * [sum(n for _, n in tensors)])


def long_names(tmp):
    """Of characters that HTML writes with six bytes, or UTF-8 with three."""
    events = []
    for rank in range(48):
        for i in range(64):
            events += [{"name": '"' * 150 + str(i), "ph": ph, "pid": rank, "tid": 1,
                        "ts": 1000 * i + (ph == "E") * 900, "args": {}} for ph in "BE"]
        both = [{"name": "save", "ph": ph, "pid": rank, "tid": 1, "ts": 70000 * (ph == "E"),
                 "args": {"checkpoint": "x", "result": "succeeded"}} for ph in "BE"]
        events[-128:] = both[:1] + events[-128:] + both[1:]
    (tmp / "long.json").write_text(json.dumps(events))
    for letter in '"', "\u202e", "\u4eba":
        model = tmp / "long.safetensors"
        safetensors_file(model, [(letter * 150 + f"{i:05d}", 1000) for i in range(2300)])
        r, text, p = made(tmp / "page.html", model, "--stats", "--verify", "--trace",
                          tmp / "long.json")
        check(f"names of U+{ord(letter):04x}: a small page", r.returncode == 0 and
              len(text.encode()) < 2e6 and not p.problems, (said(r), len(text.encode())))


def trace(tmp):
    """As a cairn::trace_file writes it."""
    def event(name, ph, rank, us, **args):
        return json.dumps({"name": name, "cat": "cairn", "ph": ph, "pid": rank, "tid": 1,
                           "ts": 1764000000000000 + us, "args": args})

    def save(rank, at, checkpoint, write):
        return [event("save", "B", rank, at, checkpoint=checkpoint),
                event("plan", "B", rank, at + 10), event("plan", "E", rank, at + 40, bytes=0),
                event("write", "B", rank, at + 50),
                event("bytes, write", "C", rank, at + 60, bytes=5),
                event("write", "E", rank, at + 50 + write, bytes=1000, items=3),
                event("save", "E", rank, at + 9000, result="succeeded")]

    events = [e for rank in range(3) for e in save(rank, 0, "x/base", 1000 * (rank + 1)) +
              save(rank, 50000, "x/other", 7777)]
    file = tmp / "trace.json"
    file.write_text("[\n" + ",\n".join(events) + "\n]\n")
    r, text, p = made(tmp / "page.html", tmp / "base", "--trace", file)
    words = " ".join(p.texts)
    check("trace: a row for each rank, of this checkpoint", r.returncode == 0 and
          "Time" in p.headings and "x/base" in words and "on 3 ranks" in words and
          words.count("rank 2, write: 3.0 ms, 1.00 kB") == 2 and "7.8 ms" not in words, words)
    check("trace: well-formed", not p.problems, p.problems[:5])
    check("trace: the slowest and the fastest rank", re.search(r"3.0 ms\s+\(2\)\s+1.0 ms", words),
          words)
    file.write_text("[\n" + ",\n".join(events)[:-30])
    r, text, p = made(tmp / "page.html", tmp / "base", "--trace", file)
    check("trace: one that is cut off", r.returncode == 0 and "cut off" in text and
          "x/base" in text, said(r))
    r, text, p = made(tmp / "page.html", tmp / "bytes", "--trace", file)
    check("trace: without a save of the checkpoint", "no save of this checkpoint" in text, said(r))
    (tmp / "page.html").unlink()
    for content in "[]", "{}", "not JSON", "[" * 100000, '[{"ph":"B","args":{}}]':
        file.write_text(content)
        r, text, p = made(tmp / "page.html", tmp / "base", "--trace", file)
        check(f"trace: {content[:12]} is refused", r.returncode == 2 and one_sentence(r) and
              b"trace.json" in r.stderr and not text, said(r))


def statistics(tmp):
    r, text, p = made(tmp / "page.html", tmp / "base", "--stats")
    words = re.sub(r"\s+", " ", " ".join(p.texts))
    check("stats: a row for each tensor", r.returncode == 0 and "All finite" in words and
          not p.problems and text.count("class=hist") == 2 and
          re.search(r"min 0 *max 5 *mean 2.5 *deviation 1.70783 *zeros 16.7 %", words),
          (said(r), words[-500:], p.problems))
    model = tmp / "nan.safetensors"
    header = json.dumps({n: {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]}
                         for i, n in enumerate(("a", "b<i>", "c"))}).encode()
    inf, nan = float("inf"), float("nan")
    model.write_bytes(struct.pack("<Q", len(header)) + header +
                      struct.pack("<12f", 1, 2, 3, 4, nan, inf, -inf, 0, nan, nan, nan, nan))
    r, text, p = made(tmp / "page.html", model, "--stats")
    words = re.sub(r"\s+", " ", " ".join(p.texts))
    check("stats: NaN and infinities are found, shown first, and in the exit code",
          r.returncode == 1 and not p.problems and "NaN or infinities in 2 tensors" in words and
          re.search(r"b<i> .*NaN 1 *Inf 2.* c .*NaN 4 *Inf 0.* a ", words),
          (said(r), words[-600:], p.problems))


    for of, what in (("unknown_dtypes", "could not be read"),
                     ("one_rank", "not all elements are stored of 1 tensor")):
        r, text, p = made(tmp / "page.html", GOLDEN / of, "--stats")
        words = re.sub(r"\s+", " ", " ".join(p.texts))
        check(f"stats: {of} is not all finite", r.returncode == 1 and not p.problems and
              what in words and "All finite" not in words and
              ("6 of 12 elements are stored" in words) == (of == "one_rank"), words[-600:])


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))


def output(tmp):
    """Written whole or not at all."""
    folder = tmp / "pages"
    folder.mkdir()
    out = folder / "page.html"
    for before in None, "<!doctype html>\n<html lang=en>what was there\n":
        if before:
            out.write_text(before)
        r = cairn("report", tmp / "small", "-o", out, preexec_fn=limited)
        check("no room: nothing is left, or what was there", r.returncode == 2 and
              one_sentence(r) and (out.read_text() if out.exists() else None) == before and
              len(os.listdir(folder)) == (before is not None), (said(r), os.listdir(folder)))
    r = cairn("report", tmp / "small", "-o", out)
    check("a page replaces another", r.returncode == 0 and "what was" not in out.read_text() and
          os.listdir(folder) == ["page.html"], said(r))
    again = out.read_bytes()
    cairn("report", tmp / "small", "-o", out)
    check("the page of a checkpoint is always the same", out.read_bytes() == again)
    data = next((tmp / "base").glob("*.distcp"))
    content = data.read_bytes()
    for target in data, tmp / "base/.metadata", "/dev/null", tmp, tmp / "none/page.html":
        r = cairn("report", tmp / "base", "-o", target)
        check(f"{target} is no page to write", r.returncode == 2 and one_sentence(r), said(r))
    hf = tmp / "hf"
    shutil.copytree(GOLDEN / "formats/hf/transformers_sharded", hf)
    (hf / "config.json").write_text("{}")
    intent = tmp / "base/.saving.0123456789abcdef0123456789abcdef"
    intent.write_text("of a save that runs")
    file = tmp / "trace.json"
    file.write_text("[\n")
    for of, target in ((hf, hf / "model.safetensors.index.json"), (hf, hf / "config.json"),
                       (tmp / "base", intent), (tmp / "base", file)):
        before = target.read_bytes()
        r = cairn("report", of, "-o", target)
        check(f"{target.name} is no page to replace", r.returncode == 2 and one_sentence(r) and
              b"a page to replace" in r.stderr and target.read_bytes() == before, said(r))
    intent.unlink()
    file.write_text("")
    check("an empty file becomes a page", cairn("report", hf, "-o", file).returncode == 0 and
          file.stat().st_size > 1000)
    check("the checkpoint is as before", data.read_bytes() == content and
          cairn("verify", tmp / "base").returncode == 0)
    r = cairn("report", tmp / "nothing", "-o", out)
    check("no checkpoint: the page stays", r.returncode == 2 and one_sentence(r) and
          out.read_bytes() == again, said(r))


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = pathlib.Path(d)
        made_fixtures = subprocess.run([FIXTURES, d], capture_output=True)
        check("the fixtures are written", made_fixtures.returncode == 0, made_fixtures.stderr)
        formats(tmp)
        shares(tmp)
        hostile(tmp)
        many(tmp)
        long_names(tmp)
        trace(tmp)
        statistics(tmp)
        output(tmp)
    sys.exit(end())


main()
