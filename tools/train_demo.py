#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model in models/demo: a small llama on the King James text.

    tools/train_demo.py --extract corpus.txt          # needs Debian's packages bible-kjv, bible-kjv-text
    tools/train_demo.py --corpus corpus.txt --out DIR # trains and writes everything models/demo holds
    tools/train_demo.py --goldens models/demo         # golden.json and tokenizer-golden.json alone
    tools/train_demo.py --costs models/demo           # what round-to-nearest quantisation costs
    tools/train_demo.py --sample models/demo          # a few texts at temperature 0.8

The text is about a million tokens, so the model meets each of them many times and the whole recipe is
about not learning it by heart: a few larger teachers, held back by dropout and a weight decay thirty
times the usual, are trained first; the small model then learns from their averaged predictions as well as
from the text. Its last steps run on weights rounded as int4 rounding will round them.
docs/demo-model.md explains the choices. Needs PyTorch, tokenizers and transformers 5.
"""

import argparse
import contextlib
import copy
import dataclasses
import datetime
import hashlib
import json
import math
import pathlib
import re
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 1611
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
BOS_ID, EOS_ID = 0, 1
VOCAB = 4096
CONTEXT = 1024

# Whole chapters that are never trained on, in the names `bible -f` prints. Passages that another book repeats
# nearly word for word (Kings and Chronicles, the first three Gospels, Isaiah 36-39) would measure memory, so
# none is here. HELDOUT becomes heldout.txt and decides nothing; VALIDATION is what settings were chosen on.
HELDOUT = ["Ge 37", "1Sm 17", "Job 38", "Psa 104", "Prv 15", "Isa 40", "Luke 15", "Acts 27", "Rom 8"]
VALIDATION = ["Exo 2", "Jdgs 16", "Neh 5", "Job 9", "Psa 139", "Prv 24", "Jer 31", "Dan 6", "John 9", "2Cor 4",
              "Heb 11"]


# ---------------------------------------------------------------------------------------------- text

def extract(path):
    """Writes every verse on a line of its own ("Ge1:1 In the beginning ...") below a line naming the source.

    The package stores the text LZW-compressed in windows of its own format (/usr/lib/bible.data); its command
    is the one reader of that format that is kept up, and `-f` makes it print one verse a line."""
    dump = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL).stdout
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "bible-kjv-text"], check=True,
                             capture_output=True, text=True).stdout
    digest = hashlib.sha256(dump.encode()).hexdigest()
    pathlib.Path(path).write_text(f"# Debian bible-kjv-text {version}, verses sha256 {digest}\n{dump}")


def read_chapters(path):
    """Returns the source line and {book: {chapter: [verse, ...]}} in the order of the text."""
    lines = pathlib.Path(path).read_text().splitlines()
    books = {}
    for line in lines[1:]:
        book, chapter, verse = re.fullmatch(r"(\d?[A-Za-z]+)(\d+):\d+ (.*)", line).groups()
        books.setdefault(book, {}).setdefault(int(chapter), []).append(" ".join(verse.split()))
    return lines[0].lstrip("# "), books


def paragraphs(verses):
    """A chapter as plain paragraphs, a line each. The source marks none, so one ends with the first sentence
    that ends a verse after 400 characters."""
    out, current = [], ""
    for verse in verses:
        current = f"{current} {verse}".lstrip()
        if len(current) >= 400 and current.rstrip(")'")[-1] in ".?!":
            out.append(current)
            current = ""
    return "\n".join(out + [current] * bool(current))


def split_corpus(books):
    """Returns the training text, a string a book, and the two held-out texts. Chapters stand a blank line apart."""
    def text_of(names):
        chapters = (name.split() for name in names)
        return "\n\n".join(paragraphs(books[book][int(number)]) for book, number in chapters) + "\n"

    kept_out = set(HELDOUT) | set(VALIDATION)
    train = ["\n\n".join(paragraphs(verses) for number, verses in chapters.items()
                         if f"{book} {number}" not in kept_out) for book, chapters in books.items()]
    return train, text_of(VALIDATION), text_of(HELDOUT)


def train_tokenizer(texts):
    """Byte-level BPE that splits words the way Llama 3's does, with its template that puts BOS first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    words = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(words), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=[BOS, EOS], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, BOS_ID)])
    assert tokenizer.get_vocab_size() == VOCAB
    assert tokenizer.token_to_id(BOS) == BOS_ID and tokenizer.token_to_id(EOS) == EOS_ID
    return tokenizer


# --------------------------------------------------------------------------------------------- model

@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    head_dim: int = 64
    rope_theta: float = 10000.0
    eps: float = 1e-5


# Every matrix has both sides a multiple of 128, so that groups of 128 weights never straddle a row.
STUDENT = Shape(hidden=256, layers=6, heads=4, kv_heads=2, intermediate=768)
TEACHER = Shape(hidden=512, layers=8, heads=8, kv_heads=8, intermediate=1408)


class Attention(nn.Module):
    def __init__(self, s, dropout):
        super().__init__()
        self.s, self.dropout = s, dropout
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def heads(y):
            return y.view(batch, length, -1, self.s.head_dim).transpose(1, 2)

        def rotate(y):  # the halves of a head are the pairs, as in transformers (not neighbours, as in the paper)
            a, b = y.chunk(2, dim=-1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(y.dtype)

        q, k, v = rotate(heads(self.q_proj(x))), rotate(heads(self.k_proj(x))), heads(self.v_proj(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.s.heads != self.s.kv_heads,
                                           dropout_p=self.dropout if self.training else 0.0)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, s, dropout):
        super().__init__()
        self.gate_proj = nn.Linear(s.hidden, s.intermediate, bias=False)
        self.up_proj = nn.Linear(s.hidden, s.intermediate, bias=False)
        self.down_proj = nn.Linear(s.intermediate, s.hidden, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.down_proj(self.drop(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, s, dropout):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(s.hidden, eps=s.eps)
        self.self_attn = Attention(s, dropout)
        self.post_attention_layernorm = nn.RMSNorm(s.hidden, eps=s.eps)
        self.mlp = MLP(s, dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cos, sin):
        x = x + self.drop(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Llama(nn.Module):
    """transformers' LlamaForCausalLM with tied embeddings, its parameter names, and dropout, which that one lacks."""

    def __init__(self, s, dropout):
        super().__init__()
        self.s = s
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCAB, s.hidden)
        self.model.layers = nn.ModuleList(Layer(s, dropout) for _ in range(s.layers))
        self.model.norm = nn.RMSNorm(s.hidden, eps=s.eps)
        self.drop = nn.Dropout(dropout)
        for name, p in self.named_parameters():
            if p.dim() == 2:  # what is added to the residual stream starts smaller the more layers add to it
                into_stream = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * s.layers) if into_stream else 0.02)
        angles = torch.outer(torch.arange(CONTEXT), s.rope_theta ** (-torch.arange(0, s.head_dim, 2) / s.head_dim))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        x = self.drop(self.model.embed_tokens(ids))
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def to_transformers(model):
    """The same weights as bfloat16 in transformers' own class, which writes config and checkpoint in its form."""
    from transformers import LlamaConfig, LlamaForCausalLM
    s = model.s
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=s.hidden, intermediate_size=s.intermediate, num_hidden_layers=s.layers,
        num_attention_heads=s.heads, num_key_value_heads=s.kv_heads, head_dim=s.head_dim, rms_norm_eps=s.eps,
        max_position_embeddings=CONTEXT, rope_parameters={"rope_type": "default", "rope_theta": s.rope_theta},
        tie_word_embeddings=True, bos_token_id=BOS_ID, eos_token_id=EOS_ID, dtype="bfloat16")
    hf = LlamaForCausalLM(config)
    missing, unexpected = hf.load_state_dict(model.state_dict(), strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected, (missing, unexpected)
    hf.tie_weights()
    return hf.to(torch.bfloat16).eval()


# -------------------------------------------------------------------------------------- quantisation

def round_to_nearest(w, bits, group=None):
    """w as symmetric round-to-nearest integers give it back, one scale a row or a group of a row's inputs."""
    top = 2 ** (bits - 1) - 1
    rows = w.float().reshape(-1, group or w.shape[-1])
    scale = rows.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / top
    return ((rows / scale).round().clamp(-top, top) * scale).reshape(w.shape).to(w.dtype)


@contextlib.contextmanager
def rounded(matrices, group):
    """Inside, the matrices hold their int4 values. A gradient taken there and applied after is the
    straight-through estimator, with no hook in the model."""
    if group is None:
        yield
        return
    saved = [m.data for m in matrices]
    for m in matrices:
        m.data = round_to_nearest(m.data, 4, group)
    yield
    for m, data in zip(matrices, saved):
        m.data = data


# ------------------------------------------------------------------------------------------ training

@dataclasses.dataclass(frozen=True)
class Recipe:
    steps: int
    rate: float           # peak of the cosine
    decay: float          # AdamW's; an update forgets rate * decay of a weight
    dropout: float
    tokens: int = 32768   # a step
    warmup: float = 0.05  # of the steps
    rounding: float = 0.0  # of the steps, the last ones, run on rounded weights
    teaching: float = 0.0  # weight of the teachers' predictions in the loss, the text having the rest


class Stream:
    """The training tokens on the device, and random windows of them.

    Half of the windows begin with BOS and a paragraph, as a prompt does; the others begin anywhere. Windows
    are long and short by turns: the long ones teach all positions, the short ones what to do with little context."""

    LENGTHS = (CONTEXT, 256)

    def __init__(self, tokenizer, texts, device):
        ids = []
        for text in texts:
            ids += [BOS_ID, *tokenizer.encode(text, add_special_tokens=False).ids, EOS_ID]
        newline = {i for t, i in tokenizer.get_vocab().items() if t.endswith("Ċ")}  # byte-level BPE's spelling of \n
        self.ids = torch.tensor(ids, device=device)
        starts = [i for i in range(len(ids) - CONTEXT - 1) if ids[i] in newline]
        self.starts = torch.tensor(starts, device=device)  # BOS takes the newline's place
        self.device = device

    def batch(self, step, tokens, generator):
        length = self.LENGTHS[step % 2]
        count = max(2, tokens // length)
        draw = {"generator": generator, "device": self.device}
        anywhere = torch.randint(len(self.ids) - length - 1, (count - count // 2,), **draw)
        paragraph = self.starts[torch.randint(len(self.starts), (count // 2,), **draw)]
        begin = torch.cat((anywhere, paragraph))
        window = self.ids[begin[:, None] + torch.arange(length + 1, device=self.device)]
        window[len(anywhere):, 0] = BOS_ID
        return window[:, :-1], window[:, 1:]


def loss_of(logits, targets, lessons, teaching):
    """Mean negative log-likelihood of the text, mixed with the cross-entropy to the teachers' probabilities."""
    logp = logits.float().log_softmax(-1)
    nll = -logp.gather(-1, targets[..., None]).mean()
    if lessons is None:
        return nll
    return (1 - teaching) * nll - teaching * (lessons * logp).sum(-1).mean()


def chunks_of(ids, context):
    """Consecutive chunks that do not overlap, each run from position 0; the last is kept if it predicts anything."""
    return [c for c in (ids[i:i + context] for i in range(0, len(ids), context)) if len(c) >= 2]


@torch.no_grad()
def mean_nll(model, ids, context=256):
    """Returns the mean over all predictions, accumulated in double, and their number. Works for both model classes."""
    total, count = 0.0, 0
    for chunk in chunks_of(ids, context):
        chunk = torch.tensor([chunk], device=next(model.parameters()).device)
        logits = model(chunk)
        logits = getattr(logits, "logits", logits)[0, :-1]
        total += F.cross_entropy(logits.float(), chunk[0, 1:], reduction="none").double().sum().item()
        count += chunk.shape[1] - 1
    return total / count, count


def fit(name, shape, recipe, stream, valid, seed, teachers=()):
    """Trains one model and returns the running average of its weights, which does a little better than the last."""
    device = stream.device
    torch.manual_seed(seed)
    model = Llama(shape, recipe.dropout).to(device).train()
    average = copy.deepcopy(model).eval()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": recipe.decay},
                                   {"params": vectors, "weight_decay": 0.0}],
                                  lr=recipe.rate, betas=(0.9, 0.98), fused=device.type == "cuda")
    warmup = max(1, round(recipe.warmup * recipe.steps))
    rounding_from = recipe.steps - round(recipe.rounding * recipe.steps)
    generator = torch.Generator(device).manual_seed(seed)
    choose = torch.Generator().manual_seed(seed)
    half = torch.autocast(device.type, dtype=torch.bfloat16)
    loss_fn = loss_of
    if device.type == "cuda":  # layers share one compilation, a few seconds; the whole model's takes tens
        loss_fn = torch.compile(loss_of, dynamic=False)
        for layer in [*model.model.layers, *(l for t in teachers for l in t.model.layers)]:
            layer.compile(dynamic=False)
    begun, recent = time.time(), 0.0
    for step in range(recipe.steps):
        done = max(0.0, (step - warmup) / max(1, recipe.steps - warmup))
        for g in optimizer.param_groups:
            g["lr"] = recipe.rate * min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * done)))
        # Mostly groups of 64 and at times its neighbours and none, so that the weights suit every one of them.
        group = (64, 64, 128, 32, None)[torch.randint(5, (), generator=choose)] if step >= rounding_from else None
        inputs, targets = stream.batch(step, recipe.tokens, generator)
        lessons = None
        with half:
            if teachers:
                with torch.no_grad():
                    lessons = sum(t(inputs).float().softmax(-1) for t in teachers) / len(teachers)
            with rounded(matrices, group):
                loss = loss_fn(model(inputs), targets, lessons, recipe.teaching)
                loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            keep = min(0.995, step / (step + 10))
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
        recent = 0.9 * recent + 0.1 * loss.detach() if step else loss.detach()
        if (step + 1) % max(1, recipe.steps // 8) == 0:
            print(f"{name}: step {step + 1}/{recipe.steps} loss {float(recent):.4f} "
                  f"validation {mean_nll(average, valid)[0]:.4f} {time.time() - begun:.1f} s", flush=True)
    return average


# ----------------------------------------------------------------------------------------- reference

def load(directory):
    """The stored model in float32 arithmetic, and its tokenizer."""
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, attn_implementation="eager")
    return model.float().eval(), Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))


@torch.no_grad()
def greedy(model, prompt, count):
    """The argmax continuation, and the least lead of a winner over its runner-up on the way."""
    ids, lead = list(prompt), math.inf
    for _ in range(count):
        best = model(torch.tensor([ids])).logits[0, -1].topk(2)
        lead = min(lead, float(best.values[0] - best.values[1]))
        ids.append(int(best.indices[0]))
    return ids[len(prompt):], lead


def write_goldens(directory):
    """What transformers and tokenizers compute from the stored files, for `tilewright verify` and `tokenize`."""
    import tokenizers
    import transformers
    directory = pathlib.Path(directory)
    model, tokenizer = load(directory)
    text = (directory / "heldout.txt").read_text()
    ids = tokenizer.encode(text).ids
    openings = [paragraph for paragraph in text.split("\n") if paragraph]
    cases = []
    for length in (1, 6, 25, 120):
        # Another arithmetic order moves a logit by about 1e-5, so a near tie on the way would make the golden a
        # coin toss; the first held-out paragraph whose continuation has none is taken.
        for opening in openings:
            prompt = tokenizer.encode(opening).ids[:length]
            tokens, lead = greedy(model, prompt, 64) if len(prompt) == length else (None, 0.0)
            if lead >= 0.02 or length == 1:
                break
        if lead < 1e-3:
            raise SystemExit(f"no prompt of {length} ids has a clear greedy continuation")
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0]
        loss = F.cross_entropy(logits[:-1].double(), torch.tensor(prompt[1:])).item() if length > 1 else None
        cases.append({"prompt": prompt, "logits_last": [round(v, 6) for v in logits[-1].tolist()],
                      "greedy": tokens, "loss": loss})
        print(f"golden: {length} ids, least lead {lead:.4f}: {tokenizer.decode(prompt + tokens)[:160]!r}")
    nll, count = mean_nll(model, ids, 256)
    golden = {"source": f"transformers {transformers.__version__}", "arithmetic": "float32 on the stored weights",
              "cases": cases, "perplexity": {"file": "heldout.txt", "context": 256, "tokens": count, "nll": nll,
                                             "value": math.exp(nll)}}
    (directory / "golden.json").write_text(json.dumps(golden) + "\n")

    texts = ["", " ", "In the beginning God created the heaven and the earth.", "  leading and trailing  ",
             "tabs\tand\nnewlines\r\n\r\n  x", "I'm you're WE'LL they'd", "1234567890 3.14159 1,000,000",
             "naïve café “quotes”…", "日本語 and Привет 🙂", "a" * 70, f"{BOS}in{EOS}", "\n\n\n",
             "And the LORD said, Who hath made man's mouth?\nAnd he answered; (for he knew not)\n\nNow",
             "\u00a0nbsp\u2003em", "x                 y", text[:600]]
    cases = []
    for t in texts:
        plain, special = (tokenizer.encode(t, add_special_tokens=s).ids for s in (False, True))
        cases.append({"text": t, "ids": plain, "ids_with_special": special,
                      "decoded": tokenizer.decode(plain),
                      "decoded_keep_special": tokenizer.decode(plain, skip_special_tokens=False)})
    golden = {"source": f"tokenizers {tokenizers.__version__}", "cases": cases}
    (directory / "tokenizer-golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    print(f"golden: heldout.txt nll {nll:.4f}, perplexity {math.exp(nll):.3f} over {count} predictions")


def costs(directory):
    """Perplexity of heldout.txt under round-to-nearest weights: a list of (name, perplexity, cost)."""
    model, tokenizer = load(directory)
    ids = tokenizer.encode((pathlib.Path(directory) / "heldout.txt").read_text()).ids
    base = math.exp(mean_nll(model, ids)[0])
    rows = [("bf16 as stored", base, 0.0)]
    # The head is untied so that it can be rounded while look-ups stay as stored, which is what an engine gains from.
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    linears = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    for label, bits, group in (("int8, a scale a row", 8, None), ("int4, groups of 32", 4, 32),
                               ("int4, groups of 64", 4, 64), ("int4, groups of 128", 4, 128)):
        for head in (False, True):
            chosen = [w for w in linears if head or w is not model.lm_head.weight]
            saved = [w.data for w in chosen]
            for w in chosen:
                w.data = round_to_nearest(w.data, bits, group)
            value = math.exp(mean_nll(model, ids)[0])
            for w, data in zip(chosen, saved):
                w.data = data
            rows.append((label + (", head too" if head else ", head as stored"), value, value / base - 1))
    return rows


@torch.no_grad()
def sample(directory, prompts=("", "And it came to pass in those days,", "The wise man", "Then Jesus said unto"),
           count=120, temperature=0.8):
    model, tokenizer = load(directory)
    generator = torch.Generator().manual_seed(SEED)
    texts = []
    for prompt in prompts:
        ids = tokenizer.encode(prompt).ids
        for _ in range(count):
            p = (model(torch.tensor([ids])).logits[0, -1] / temperature).softmax(-1)
            ids.append(int(torch.multinomial(p, 1, generator=generator)))
            if ids[-1] == EOS_ID:
                break
        texts.append(tokenizer.decode(ids))
    return texts


# -------------------------------------------------------------------------------------------- report

PROVENANCE = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Where the demo model comes from

| | |
| --- | --- |
| text | the King James (Authorized) Version of the Bible, {source} |
| its status | a translation of 1611 whose copyright has expired, as the package's copyright file states: public domain. (In the United Kingdom alone, printing it is reserved by letters patent.) The package's data files, by Chip Chapin, are "provided for unrestricted use"; none of them is here |
| the weights | trained from nothing but that text, by `tools/train_demo.py`; under Apache-2.0 as the rest of Tilewright |
| date | {date} |
| command | `tools/train_demo.py --extract corpus.txt`, then `tools/train_demo.py --corpus corpus.txt --out models/demo`; the settings below are its defaults |
| device | {device}; {versions} |
| time | {seconds:.0f} s for {teachers} teachers and the model |
| seed | {seed} (order of data, initial weights, dropout; a GPU's atomic sums still differ between runs in the last bits) |
| parameters | {parameters:,}, tied embeddings counted once |
| tokens | {train_tokens:,} in training, {valid_tokens:,} for choosing settings, {heldout_tokens:,} in `heldout.txt` |
| teachers | {teachers} of {teacher_shape}, {teacher_recipe} |
| model | {student_shape}, {student_recipe} |

| text | loss, nats a token | perplexity |
| --- | --- | --- |
{losses}

Chunks of 256 tokens, each from position 0, float32 arithmetic on the stored bf16 weights.

`heldout.txt` holds whole chapters that no model saw and that decided nothing: {heldout}. Settings were
chosen on other chapters: {validation}.

What weight-only, symmetric, round-to-nearest quantisation costs on `heldout.txt`:

| weights | perplexity | cost |
| --- | --- | --- |
{costs}
"""


def describe(record):
    return ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in dataclasses.asdict(record).items())


def train(corpus, out, student, teacher, teachers, device):
    """The whole recipe, from the verses to the files of models/demo."""
    import transformers
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    source, books = read_chapters(corpus)
    train_texts, valid_text, heldout_text = split_corpus(books)
    (out / "heldout.txt").write_text(heldout_text)
    tokenizer = train_tokenizer(train_texts)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS,
                                         model_max_length=CONTEXT).save_pretrained(out)
    stream = Stream(tokenizer, train_texts, device)
    valid = tokenizer.encode(valid_text).ids
    print(f"{len(stream.ids)} tokens, {len(stream.starts)} paragraphs, {len(valid)} for validation", flush=True)

    begun = time.time()
    tutors = [fit(f"teacher {i}", TEACHER, teacher, stream, valid, SEED + 1 + i) for i in range(teachers)]
    model = fit("model", STUDENT, student, stream, valid, SEED, tutors)
    seconds = time.time() - begun
    to_transformers(model).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # safetensors makes it its owner's alone
    write_goldens(out)

    stored, _ = load(out)
    texts = {"training (its first 50,000 tokens)": stream.ids[:50000].tolist(), "validation": valid,
             "`heldout.txt`": tokenizer.encode(heldout_text).ids}
    nlls = {name: mean_nll(stored, ids)[0] for name, ids in texts.items()}
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    (out / "PROVENANCE.md").write_text(PROVENANCE.format(
        source=source, date=datetime.date.today(), device=name, seconds=seconds, seed=SEED, teachers=teachers,
        versions=f"PyTorch {torch.__version__}, transformers {transformers.__version__}",
        parameters=sum(p.numel() for p in model.parameters()), train_tokens=len(stream.ids), valid_tokens=len(valid),
        heldout_tokens=len(texts["`heldout.txt`"]), teacher_shape=describe(TEACHER), teacher_recipe=describe(teacher),
        student_shape=describe(STUDENT), student_recipe=describe(student),
        losses="\n".join(f"| {k} | {v:.4f} | {math.exp(v):.2f} |" for k, v in nlls.items()),
        heldout=", ".join(HELDOUT), validation=", ".join(VALIDATION),
        costs="\n".join(f"| {k} | {v:.3f} | {100 * c:+.2f} % |" for k, v, c in costs(out))))
    print((out / "PROVENANCE.md").read_text())
    print(*sample(out), sep="\n----\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--extract", metavar="FILE", help="write the verses to FILE")
    p.add_argument("--corpus", metavar="FILE", help="the verses that --extract wrote")
    p.add_argument("--out", metavar="DIR", help="train, and write the model here")
    p.add_argument("--goldens", metavar="DIR", help="write golden.json and tokenizer-golden.json of the model in DIR")
    p.add_argument("--costs", metavar="DIR", help="print what quantising the model in DIR costs")
    p.add_argument("--sample", metavar="DIR", help="print texts the model in DIR writes")
    p.add_argument("--teachers", type=int, default=4, help="how many larger models teach it (%(default)s)")
    p.add_argument("--smoke", action="store_true", help="a few tiny steps, to see that every part runs")
    a = p.parse_args()
    student = Recipe(steps=2000, rate=2e-3, decay=0.5, dropout=0.05, rounding=0.3, teaching=0.85)
    teacher = Recipe(steps=800, rate=1e-3, decay=3.0, dropout=0.3)
    if a.smoke:
        student = dataclasses.replace(student, steps=4, tokens=2048)
        teacher = dataclasses.replace(teacher, steps=2, tokens=2048)
    if a.extract:
        extract(a.extract)
    if a.out:
        if not a.corpus:
            p.error("--out needs --corpus")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        train(a.corpus, a.out, student, teacher, a.teachers, device)
    if a.goldens:
        write_goldens(a.goldens)
    if a.costs:
        for name, value, cost in costs(a.costs):
            print(f"{name:34} {value:8.3f} {100 * cost:+6.2f} %")
    if a.sample:
        print(*sample(a.sample), sep="\n----\n")


if __name__ == "__main__":
    main()
