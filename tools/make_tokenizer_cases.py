#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Hugging Face's tokenizers and writes what Tilewright is held to.

    make_tokenizer_cases.py tables > src/tokenizer/tables.c
    make_tokenizer_cases.py cases              rewrites tests/data/tokenizers/made-*
    make_tokenizer_cases.py fuzz DIR N SEED    writes one folder a tokenizer with N random cases each

Needs the Python package `tokenizers`; `tables` also libpcre2-8.
"""
import ctypes
import ctypes.util
import json
import os
import random
import resource
import shutil
import signal
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
    for n in ["Han", "Hiragana", "Katakana", "Hangul", "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Thai", "Devanagari"]:
        extras[n] = engine_set(r"\p{%s}" % n) - pcre2_set(r"\p{sc:%s}" % n)
        if pcre2_set(r"\p{sc:%s}" % n) - engine_set(r"\p{%s}" % n):
            raise SystemExit(n + " has lost members")
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
    w('#include "tokenizer/unicode.h"\n\n/* clang-format off */\n')
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


# ---------------------------------------------------------------- texts

SENTENCES = """The quick brown fox jumps over the lazy dog, didn't it? They're sure that he'd seen 12 foxes and 3,456 dogs.
She said: "We'll go to the market at 7:30, won't we?" - and I've no idea what I'm going to do about it.
def main(argv):\n    for i in range(10):\n        print(i ** 2, "done")\n    return {"a": [1, 2, 3]}
A tokenizer cuts text into pieces; every piece has an identifier, and the identifiers can be turned into text again.
Die Straße führt über die Brücke zum Café, wo es süße Äpfel gibt. El niño comió piña mañana. Où est la forêt?
Москва и Санкт-Петербург стоят далеко друг от друга. Η γλώσσα είναι ελληνική. 東京は日本の首都です。 中文的句子沒有空格。
한국어 문장은 띄어쓰기가 있다. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก""".split("\n")
ATOMS = ["the", "The", "THE", " and", "'s", "'S", "'re", "don't", "WE'LL", "I'm", "'\u017f", "hello", "world", "naïve", "café",
         "Straße", "İstanbul", "\u212a", "ß", "ﬁ", "ﬂuff", "Ⅷ", "①", "²", "½", "٣٤", "१२", "1", "12", "123", "1234567", "3.14",
         "1,000", "a_b", "x=y", "!", "...", "?!", ",", ";", "\u201c", "\u201d", "\u2019", "\u2026", "-", "\u2014", "$", "€", "+", "=", "<", ">", "^", "`",
         "|", "~", "@", "#", "##", "%", "&", "*", "(", ")", "[", "]", "{", "}", "/", "\\", '"', "'", "_", "\u2581", "\u2581\u2581", "<0x41>",
         "<0xE2>", "</w>", "Ġ", "Ċ", " ", " ", " ", "  ", "   ", "       ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c",
         "\x1c", "\x85", "\u00a0", "\u1680", "\u180e", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\u200d", "\u200e", "\ufeff", "\ufffd", "\x00",
         "\x01", "\x7f", "\x9f", "日本語", "中文", "漢字", "ひらがな", "カタカナ", "ｶﾞ", "が", "か\u3099", "한국어", "\u1112\u1161\u11ab",
         "각", "ꥠ", "Привет", "ЁЛКА", "ελληνικά", "ΣΑΣ", "שלום", "שָׁלוֹם", "مرحبا", "بِسْمِ", "नमस्ते", "क्षि", "สวัสดี", "ไทย", "ကြောင်", "ខ្មែរ",
         "e\u0301", "\u0301", "a\u0323\u0307", "a\u0307\u0323", "\u0323\u0307", "q\u0308\u0324\u0301", "Å", "\u212b", "A\u030a", "\u1e9b\u0323", "ǆ", "ﷺ", "🙂", "👩\u200d👩\u200d👧\u200d👦",
         "🏳️\u200d🌈", "🇩🇪", "👍🏽", "\U0001fae8", "\U0001fa75", "𝐀𝐁", "𝟙𝟚", "𐐀𐐨", "\U00031350", "\U0002ebf0", "\U0001e030", "\U00016ea0", "\ue000",
         "\U0010ffff", "\ufdd0", "\u0378", "ｆｕｌｌ", "ＷＩＤＥ", "１２", "\u09be", "ो", "\u0345", "\u0f73", "\u2126", "᭄", "𑄮", "\U00011938"]
BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x250, 0x36f), (0x370, 0x5ff), (0x600, 0x8ff), (0x900, 0xdff), (0xe00, 0x10ff), (0x1100, 0x139f),
          (0x1680, 0x1aff), (0x1d00, 0x1fff), (0x2000, 0x2bff), (0x2c00, 0x2fff), (0x3000, 0x33ff), (0x4e00, 0x9fff), (0xa000, 0xabff), (0xac00, 0xd7af),
          (0xf900, 0xffff), (0x10000, 0x11fff), (0x1d000, 0x1d7ff), (0x1e000, 0x1ffff), (0x20000, 0x323af), (0, 0x10ffff)]


def random_char(r):
    while True:
        c = r.randint(*r.choice(BLOCKS))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def random_text(r, added):
    kind = r.random()
    if kind < 0.03:
        return r.choice(ATOMS + added) * r.choice([1, 2, 3, 50, 200])
    if kind < 0.12:
        return "".join(random_char(r) for _ in range(r.randint(1, 24)))
    parts = []
    for _ in range(r.randint(1, 20)):
        x = r.random()
        if x < 0.12 and added:
            t = r.choice(added)
            if r.random() < 0.25:
                t = t[: r.randint(0, len(t))] if r.random() < 0.5 else t.swapcase()
            parts.append(r.choice(["", "", " ", "  ", "\n", "a"]) + t + r.choice(["", "", " ", "\t ", "z", t]))
        elif x < 0.3:
            parts.append(r.choice(r.choice(SENTENCES).split(" ")) + r.choice(["", " "]))
        elif x < 0.4:
            parts.append(random_char(r))
        elif x < 0.45:
            parts.append("".join(r.choice("abcdeghinorstuwy") for _ in range(r.randint(1, 14))))
        else:
            parts.append(r.choice(ATOMS))
            if r.random() < 0.3:
                parts.append(" ")
    return "".join(parts)


# ---------------------------------------------------------------- tokenizers

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
ODD = [r"\s+", r"\w+", r"\W+", r"\b", r"\d+|\D", r"[\w']+|[^\w\s]+", r"(?<=\s)\S", r"\S+\s*", r"(?=[A-Z])", r"[[:punct:]]+", r"^\s*\S+",
       r"\s+$", r".", r"(?m:.)", r"x*", r"[a-f&&[^cd]]+", r"[^a-z[0-9]]+", r"\h{2}", r"\p{Han}|\p{Hiragana}|\p{Katakana}+", r"\p{N}{1,3}+",
       r"[^\S\r\n]+", r"(?>\s+)(?=\S)", r"(a|e|i)\1?", r"\p{^L}+", r"\P{M}\p{M}*", r"\R", r"[\x{3040}-\x{30ff}ー]+", r"\u00e9|\t", r"(?i)the|and",
       r"\p{Lu}+(?!\p{Ll})", r"[\p{L}\p{M}]++", r" {2,}?", r"(?:\s|\p{P}){2}*", r"\Aa|\z", r"[-a]+|[a-]"]
BYTE_FALLBACK = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def template(tokens, before, after):
    single = [{"SpecialToken": {"id": t, "type_id": 0}} for t in before]
    single += [{"Sequence": {"id": "A", "type_id": 0}}] + [{"SpecialToken": {"id": t, "type_id": 0}} for t in after]
    return {"type": "TemplateProcessing", "single": single,
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [tokens[t]], "tokens": [t]} for t in before + after}}


def added(content, id, special=True, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special,
            "special": special, **flags}


def train(kind, size, r, **options):
    """A model's vocabulary (and merges), learnt from our own sentences and made-up words."""
    words = ["".join(r.choice(["ka", "to", "mi", "ren", "shal", "ing", "er", "un", "dra", "el", "os", "tion", "pre", "qu"])
                     for _ in range(r.randint(1, 4))) for _ in range(400)]
    lines = SENTENCES * 3 + [" ".join(r.choice(words) for _ in range(12)) for _ in range(400)]
    lines += [" ".join(r.choice(ATOMS[:-1]) for _ in range(10)).replace("\0", "") for _ in range(200)]
    special = options.pop("special", [])
    if kind == "bytes":
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    elif kind == "chars":
        t = Tokenizer(models.BPE(unk_token=special[0] if special else None))
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=120, **options)
    elif kind == "words":
        t = Tokenizer(models.BPE(unk_token=special[0]))
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=150, **options)
    else:
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(lowercase=options.get("lowercase", True))
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=250)
    t.train_from_iterator(lines, trainer)
    return json.loads(t.to_str())["model"]


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LLAMA = ["<unk>", "<s>", "</s>"]


def bert_normalizer(**o):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **o}


def bases(r, size):
    """Models to build tokenizers on."""
    out = {"bytes": train("bytes", size, r, special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
           "chars": train("chars", size, r, special=LLAMA + ["<0x%02X>" % b for b in range(256)]),
           "unk": train("chars", size, r, special=LLAMA),
           "pieces": train("pieces", size, r, special=BERT),
           "cased": train("pieces", size, r, special=BERT, lowercase=False),
           "suffix": train("words", size, r, special=["<unk>"], end_of_word_suffix="</w>"),
           "prefix": train("words", size, r, special=["<unk>"], continuing_subword_prefix="##")}
    out["chars"]["byte_fallback"] = out["chars"]["fuse_unk"] = True
    out["unk"]["fuse_unk"] = True
    return out


def shelf(b):
    """Tokenizers in the manner of published ones: name -> tokenizer.json."""
    out = {}

    def put(name, model, tokens=(), normalizer=None, pre=None, post=None, decoder=None, **rest):
        model = dict(model)
        at = max(model["vocab"].values()) + 1
        listed = []
        for t in tokens:
            t = dict(t) if isinstance(t, dict) else added(t, 0)
            t["id"] = model["vocab"].get(t["content"], at)
            at = max(at, t["id"] + 1)
            listed.append(t)
        ids = {**model["vocab"], **{t["content"]: t["id"] for t in listed}}
        out[name] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(listed, key=lambda t: t["id"]),
                     "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post(ids) if callable(post) else post,
                     "decoder": decoder, "model": model, **rest}

    bl = byte_level()
    put("gpt2", b["bytes"], ["<|endoftext|>"], pre=bl, post=bl, decoder=bl)
    put("roberta", b["bytes"], ["<s>", "</s>", added("<mask>", 0, lstrip=True)], pre=byte_level(True), decoder=bl,
        post=lambda i: {"type": "RobertaProcessing", "sep": ["</s>", i["</s>"]], "cls": ["<s>", i["<s>"]], "trim_offsets": True,
                        "add_prefix_space": True})
    put("llama3", {**b["bytes"], "ignore_merges": True}, ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>"],
        pre=sequence("pretokenizers", split(GPT4), byte_level(regex=False)), decoder=bl,
        post=lambda i: sequence("processors", bl, template(i, ["<|begin_of_text|>"], [])))
    put("qwen2", b["bytes"], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], {"type": "NFC"},
        sequence("pretokenizers", split(QWEN), byte_level(regex=False)), byte_level(regex=False), byte_level(regex=False))
    put("smollm", b["bytes"], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], None,
        sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, bl), None, bl)
    put("o200k", b["bytes"], ["<|endoftext|>"], None, sequence("pretokenizers", split(O200K), byte_level(regex=False)), None, bl)
    put("deepseek", b["bytes"], ["<|endoftext|>", added("<think>", 0, False, normalized=False)], None,
        sequence("pretokenizers", split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), byte_level(regex=False)), None, bl)
    put("llama2", b["chars"], LLAMA, sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}), None, lambda i: template(i, ["<s>"], []),
        sequence("decoders", *BYTE_FALLBACK, STRIP))
    for scheme in ("first", "always", "never"):
        put("metaspace-" + scheme, b["chars"], LLAMA + [added("<extra>", 0, False), added("[INST]", 0, False, normalized=False)], None,
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme == "always"},
            lambda i: template(i, ["<s>"], ["</s>"]), sequence("decoders", *BYTE_FALLBACK, STRIP))
    put("t5", b["unk"], LLAMA, {"type": "NFKC"},
        sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}),
        lambda i: template(i, [], ["</s>"]), {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True})
    put("gemma", b["chars"], LLAMA + ["<start_of_turn>"], {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        split(" ", "MergedWithPrevious", kind="String"), lambda i: template(i, ["<s>"], []), sequence("decoders", *BYTE_FALLBACK))
    cls = lambda i: {"type": "BertProcessing", "sep": ["[SEP]", i["[SEP]"]], "cls": ["[CLS]", i["[CLS]"]]}
    wp = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    put("bert-uncased", b["pieces"], BERT, bert_normalizer(), {"type": "BertPreTokenizer"}, lambda i: template(i, ["[CLS]"], ["[SEP]"]), wp)
    put("bert-cased", b["cased"], BERT, bert_normalizer(lowercase=False), {"type": "BertPreTokenizer"}, cls, wp)
    put("bert-short", b["pieces"], BERT, bert_normalizer(strip_accents=False, handle_chinese_chars=False), {"type": "BertPreTokenizer"}, cls,
        {**wp, "cleanup": False}, truncation={"direction": "Left", "max_length": 12, "strategy": "LongestFirst", "stride": 0},
        padding={"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"})
    put("gpt1", b["suffix"], ["<unk>"], bert_normalizer(), {"type": "BertPreTokenizer"}, None, {"type": "BPEDecoder", "suffix": "</w>"})
    put("continuing", b["prefix"], ["<unk>"], {"type": "Lowercase"}, {"type": "Whitespace"}, None, wp)
    put("plain", b["unk"], LLAMA)
    put("flags", b["bytes"], ["<|endoftext|>", added("<l>", 0, lstrip=True), added("<r>", 0, rstrip=True), added("<w>", 0, single_word=True),
        added("word", 0, False, single_word=True), added("Cafe\u0301", 0, False), added("THE", 0, False, lstrip=True, rstrip=True),
        added("  ", 0, False, normalized=False), added("<l><r>", 0, False, normalized=False), added("Ⅷ", 0, True, normalized=True)],
        sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"}), bl, None, bl)
    return out


def random_tokenizer(b, r):
    """Parts thrown together."""
    name = r.choice(list(b))
    model = dict(b[name])
    some = lambda p: r.random() < p
    norm = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
    norm += [bert_normalizer(clean_text=some(0.5), handle_chinese_chars=some(0.5), strip_accents=r.choice([None, True, False]), lowercase=some(0.5)),
             {"type": "Strip", "strip_left": some(0.6), "strip_right": some(0.6)}, {"type": "Prepend", "prepend": r.choice(["▁", " ", "xy"])},
             {"type": "Replace", "pattern": {"String": r.choice([" ", "  ", "e", "'"])}, "content": r.choice(["▁", "", "é", "  "])},
             {"type": "Replace", "pattern": {"Regex": r.choice([r"\s+", r" {2,}", r"[\r\n]+", r"\p{P}", r"(?=[A-Z])"])}, "content": r.choice([" ", "", "▁"])},
             {"type": "ByteLevel"}]
    behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

    def pre():
        return r.choice([
            lambda: split(r.choice(ODD), r.choice(behaviors), some(0.3)), lambda: split(r.choice(ODD), r.choice(behaviors), some(0.3)),
            lambda: split(r.choice([" ", "a", ".", "th", "▁"]), r.choice(behaviors), some(0.3), "String"),
            lambda: split(r.choice([GPT4, QWEN, O200K, DEEPSEEK])), lambda: {"type": "Digits", "individual_digits": some(0.5)},
            lambda: {"type": "BertPreTokenizer"}, lambda: {"type": "Whitespace"}, lambda: {"type": "WhitespaceSplit"},
            lambda: {"type": "Punctuation", "behavior": r.choice(behaviors)}, lambda: {"type": "CharDelimiterSplit", "delimiter": r.choice(" a▁")},
            lambda: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": r.choice(["first", "always", "never"]), "split": some(0.5)},
        ])()

    dec = [{"type": "Replace", "pattern": {"String": r.choice(["▁", "Ġ", "th", "  "])}, "content": r.choice([" ", "", "_"])},
           {"type": "Replace", "pattern": {"Regex": r.choice([r"\s+", "e+", r"\p{P}"])}, "content": r.choice([" ", "-"])},
           {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": r.randint(0, 2), "stop": 0},
           {"type": "Strip", "content": "e", "start": 0, "stop": r.randint(0, 1)}, byte_level(),
           {"type": "WordPiece", "prefix": r.choice(["##", "▁"]), "cleanup": some(0.6)},
           {"type": "Metaspace", "replacement": "▁", "prepend_scheme": r.choice(["first", "never"]), "split": True},
           {"type": "BPEDecoder", "suffix": r.choice(["</w>", "e"])}]
    pick = lambda pool, most: [pool() if callable(pool) else r.choice(pool) for _ in range(r.randint(0, most))]
    n, p, d = pick(norm, 3), pick(pre, 3), pick(dec, 4)
    if name == "bytes" and some(0.85):
        n = [x for x in n if x["type"] != "ByteLevel"]
        p.append(byte_level(some(0.4), some(0.6)))
        if some(0.7):
            d = [byte_level()] + d[:1]
    if model["type"] == "BPE":
        model["ignore_merges"] = some(0.3)
        model["fuse_unk"] = some(0.5)
    tokens, at = [], max(model["vocab"].values()) + 1
    pool = [t for t in model["vocab"] if t[:1] in "<["and len(t) > 2 and not t.startswith("<0x")][:6]
    pool += ["<a>", "<A>", " <b>", "hello", "The", " and", "e\u0301", "é", "日本", "İ", "  ", "\n", "<a><A>", "x y", "ﬁ", "▁", "12"]
    for c in r.sample(pool, r.randint(0, 8)):
        i = model["vocab"].get(c, at)
        at = max(at, i + 1)
        tokens.append(added(c, i, some(0.6), normalized=some(0.5), single_word=some(0.3), lstrip=some(0.3), rstrip=some(0.3)))
    post = None
    if tokens and some(0.5):
        ids = {t["content"]: t["id"] for t in tokens}
        post = template(ids, [r.choice(tokens)["content"]], [r.choice(tokens)["content"]])
    seq = lambda kind, parts: None if not parts else parts[0] if len(parts) == 1 else sequence(kind, *parts)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(tokens, key=lambda t: t["id"]),
            "normalizer": seq("normalizers", n), "pre_tokenizer": seq("pretokenizers", p), "post_processor": post,
            "decoder": seq("decoders", d), "model": model}


def cases_of(tokenizer, texts, r, extra_ids=0):
    out = []
    for text in texts:
        try:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            case = {"text": text, "ids": ids, "ids_with_special": tokenizer.encode(text).ids,
                    "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                    "decoded_keep_special": tokenizer.decode(ids, skip_special_tokens=False)}
        except BaseException as e:  # the library panics on a few combinations
            if isinstance(e, KeyboardInterrupt):
                raise
            continue
        out.append(case)
    return out


def write(folder, spec, texts, r):
    try:
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    except BaseException:
        return 0
    cases = cases_of(tokenizer, texts, r)
    if not cases:
        return 0
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(spec, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as f:
        f.write('{"source":"tokenizers %s","cases":[\n' % hf.__version__)
        f.write(",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases))
        f.write("\n]}\n")
    return len(cases)


def contents(spec):
    return [t["content"] for t in spec["added_tokens"]]


def guarded(folder, spec, texts, r):
    """write() in a process of its own: some combinations make the reference run away."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        signal.alarm(60)
        try:
            write(folder, spec, texts, r)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    try:
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
            return len(json.load(f)["cases"])
    except (OSError, ValueError):
        shutil.rmtree(folder, ignore_errors=True)
        return 0


def fuzz(folder, n, seed):
    r = random.Random(seed)
    b = bases(r, 1200)
    total = 0
    for name, spec in shelf(b).items():
        total += guarded(os.path.join(folder, name), spec, [random_text(r, contents(spec)) for _ in range(n)], r)
    for i in range(n // 4):
        spec = random_tokenizer(b, r)
        total += guarded(os.path.join(folder, "random-%d" % i), spec, [random_text(r, contents(spec)) for _ in range(60)], r)
    print(total, "cases")


def cases():
    """The reference data in the tests: one folder a tokenizer."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "tokenizers")
    r = random.Random(7)
    fixed = ["", " ", "Hello, world!", "  leading and trailing  ", "\x00\x01", "<|endoftext|>in<|endoftext|>", "日本語 Привет 🙂", "a" * 300, "\n\n \n", "<s>"]
    for name, spec in shelf(bases(r, 420)).items():
        folder = os.path.join(here, "made-" + name)
        shutil.rmtree(folder, ignore_errors=True)
        print(name, write(folder, spec, fixed + [random_text(r, contents(spec)) for _ in range(25)], r))


if __name__ == "__main__":
    if sys.argv[1:2] == ["tables"]:
        tables()
    elif sys.argv[1:2] == ["cases"]:
        cases()
    elif sys.argv[1:2] == ["fuzz"] and len(sys.argv) == 5:
        fuzz(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(__doc__)
