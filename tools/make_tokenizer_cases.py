#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Hugging Face's tokenizers and writes what Tilewright is held to.

    make_tokenizer_cases.py tables > src/model/tokenizer_tables.c
    make_tokenizer_cases.py cases              rewrites the generated folders of tests/data/tokenizers
    make_tokenizer_cases.py fuzz DIR N SEED    writes one folder a tokenizer with N random cases each

Needs the Python package `tokenizers`; `tables` also libpcre2-8.
"""
import ctypes
import ctypes.util
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import tokenizers as hf

POINTS = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


# ---------------------------------------------------------------- tables


def pcre2_set(pattern):
    """The code points that PCRE2 (the library installed here) puts in a class."""
    lib = ctypes.CDLL(ctypes.util.find_library("pcre2-8"))
    lib.pcre2_compile_8.restype = lib.pcre2_match_data_create_8.restype = ctypes.c_void_p
    lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
    text = "".join(map(chr, POINTS))
    data = text.encode()
    starts = {}
    at = 0
    for c in POINTS:
        starts[at] = c
        at += len(chr(c).encode())
    e, o = ctypes.c_int(), ctypes.c_size_t()
    p = ("(?:%s)+" % pattern).encode()
    code = lib.pcre2_compile_8(p, ctypes.c_size_t(len(p)), 0x80000 | 0x20000, ctypes.byref(e), ctypes.byref(o), None)
    if not code:
        raise SystemExit("PCRE2 does not take " + pattern)
    match = lib.pcre2_match_data_create_8(4, None)
    found, at = set(), 0
    while lib.pcre2_match_8(ctypes.c_void_p(code), data, ctypes.c_size_t(len(data)), ctypes.c_size_t(at),
                            0x40000000, ctypes.c_void_p(match), None) > 0:
        v = lib.pcre2_get_ovector_pointer_8(ctypes.c_void_p(match))
        found.update(map(ord, data[v[0]:v[1]].decode()))
        at = v[1]
    return found


def engine_set(pattern):
    """The code points that the reference's regex engine puts in a class."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in POINTS if not split.pre_tokenize_str(chr(c))}


def kept(normalizer, wrap="%s"):
    return {c for c in POINTS if normalizer.normalize_str(wrap % chr(c)) != wrap % ""}


def tables():
    everything = set(POINTS)
    digits = pre_tokenizers.Digits(individual_digits=True)
    punctuation = pre_tokenizers.Punctuation()
    words = pre_tokenizers.Whitespace()
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    classes = {
        "numeric": {c for c in POINTS if len(digits.pre_tokenize_str("a" + chr(c))) == 2},
        "punctuation": {c for c in POINTS if len(punctuation.pre_tokenize_str("aa" + chr(c) * 2)) == 3},
        "word": {c for c in POINTS if words.pre_tokenize_str(chr(c)) and len(words.pre_tokenize_str("a" + chr(c))) == 1},
        "control": everything - kept(normalizers.BertNormalizer(**{**bert, "clean_text": True})),
        "nonspacing": everything - kept(normalizers.BertNormalizer(**{**bert, "strip_accents": True})),
        "mark": everything - kept(normalizers.StripAccents()),
    }
    lower = normalizers.Lowercase()
    lowered = {}
    for c in POINTS:
        t = lower.normalize_str(chr(c))
        if t != chr(c) and len(t) == 1:
            lowered[c] = ord(t)
    import unicodedata

    new_lower = {c: t for c, t in lowered.items() if unicodedata.category(chr(c)) == "Cn" or chr(c).lower() != chr(t)}

    # A property's members that PCRE2's edition lacks.
    names = ["L", "N", "P", "S", "M", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
             "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Alphabetic", "Uppercase", "Lowercase"]
    extras = {n: engine_set(r"\p{%s}" % n) - pcre2_set(r"\p{%s}" % n) for n in names}
    extras["Han"] = engine_set(r"\p{Han}") - pcre2_set(r"\p{sc:Han}")
    extras["word"] = engine_set(r"[[:word:]]") - pcre2_set(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]")

    # Characters that the reference's normalization forms do not know yet.
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    opaque = set()
    for c in POINTS:
        s = chr(c)
        if unicodedata.normalize("NFKD", s) != s and nfkd.normalize_str(s) == s:
            opaque.add(c)
        elif unicodedata.combining(s) > 1 and nfd.normalize_str(s) == s and nfd.normalize_str("a" + s + "\u0334")[-1] != s:
            opaque.add(c)
        elif unicodedata.category(s) == "Cn" and (c in extras["L"] or c in extras["M"] or c in extras["N"] or c in extras["S"]):
            opaque.add(c)
    classes["opaque"] = opaque

    w = sys.stdout.write
    w("/* SPDX-License-Identifier: Apache-2.0 */\n")
    w("/* Measured on Hugging Face's tokenizers %s by tools/make_tokenizer_cases.py tables; do not edit. */\n" % hf.__version__)
    w('#include "model/tokenizer_unicode.h"\n\n/* clang-format off */\n')
    for name, points in classes.items():
        rs = ranges(points)
        w("static const tw_char_range %s_ranges[] = {\n" % name)
        for i in range(0, len(rs), 6):
            w("    " + " ".join("{0x%x, 0x%x}," % tuple(r) for r in rs[i:i + 6]) + "\n")
        w("};\nconst tw_char_class tw_class_%s = {%s_ranges, %d};\n\n" % (name, name, len(rs)))
    rows = []
    for c in sorted(new_lower):
        d = new_lower[c] - c
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == d:
            rows[-1][1] = c
        else:
            rows.append([c, c, d])
    w("const tw_lower_range tw_lower_ranges[] = {\n")
    for r in rows:
        w("    {0x%x, 0x%x, %d},\n" % tuple(r))
    w("};\nconst size_t tw_n_lower_ranges = %d;\n\n" % len(rows))
    extras = {n: s for n, s in extras.items() if s}
    w("const tw_property_extra tw_property_extras[] = {\n")
    for n in sorted(extras):
        parts = ["\\\\x{%x}" % a if a == b else "\\\\x{%x}-\\\\x{%x}" % (a, b) for a, b in ranges(extras[n])]
        w('    {"%s",\n' % n)
        for i in range(0, len(parts), 5):
            w('     "' + "".join(parts[i:i + 5]) + '"' + ("" if i + 5 < len(parts) else "},") + "\n")
    w("};\nconst size_t tw_n_property_extras = %d;\n" % len(extras))


if __name__ == "__main__":
    if sys.argv[1:2] == ["tables"]:
        tables()
    else:
        sys.exit(__doc__)
