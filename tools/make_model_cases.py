#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random models of tests/data/models, and tests/data/rope.json.

    tools/make_model_cases.py [--out tests/data] [NAME ...]

Each model exists for one or two turns of a config that its comment names. Beside the weights stands golden.json:
what transformers computes from the stored weights in float32 (logits at the last prompt position, 32 greedy tokens
past any end token, mean next-token loss over the prompt). Tokens come one at a time with the cache, as `generate`
takes them; that matters for dynamic rope, where a key keeps the rotation of the length it was computed at.

A greedy choice is only worth comparing when it is clear: a seed is tried until, along every path, the best logit
leads by 0.3% of the largest, and routed experts lead by a ten-thousandth of the probability. Needs PyTorch and transformers 5.
"""

import argparse
import json
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

PROMPTS = [1, 5, 23, 61]
GREEDY = 32
LOGIT_MARGIN = 0.003
ROUTER_MARGIN = 1e-4  # float arithmetic differs by some 1e-6
SMALL = dict(vocab_size=256, hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.1)
SMALL_GPT2 = dict(vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=128, initializer_range=0.1)
NO_TOKENS = dict(pad_token_id=None, bos_token_id=1, eos_token_id=[2, 3])  # the classes' own lie beyond the vocabulary

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def version4(config):
    """The same config as transformers 4 spelled it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    return config


def gemma3_version4(config):
    """Two ropes side by side, the layers' types by their pattern."""
    rope = config.pop("rope_parameters")
    full, local = rope["full_attention"], rope["sliding_attention"]
    config.update(rope_theta=full.pop("rope_theta"), rope_scaling=full, rope_local_base_freq=local["rope_theta"],
                  sliding_window_pattern=3, cache_implementation="hybrid", torch_dtype=config.pop("dtype"))
    del config["layer_types"]
    return config


def phi3_version4(config):
    """As Microsoft's configs are."""
    rope = config.pop("rope_parameters")
    config.update(rope_theta=rope.pop("rope_theta"), partial_rotary_factor=rope.pop("partial_rotary_factor"),
                  torch_dtype=config.pop("dtype"))
    del rope["original_max_position_embeddings"], rope["rope_type"]
    config["rope_scaling"] = {"type": "longrope", **rope}
    config["auto_map"] = {"AutoConfig": "configuration_phi3.Phi3Config",
                          "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}
    return config


def without_prefix(folder):
    """As the first GPT-2 checkpoints were: no prefix, and the causal masks stored."""
    path = folder / "model.safetensors"
    tensors = {k.removeprefix("transformer."): v for k, v in load_file(path).items()}
    for i in range(2):
        tensors[f"h.{i}.attn.bias"] = torch.tril(torch.ones(128, 128)).to(torch.uint8)[None, None]
        tensors[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, path, metadata={"format": "pt"})


def with_head(folder):
    """A tied head that is stored all the same."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, path, metadata={"format": "pt"})


# name: (config class, arguments, stored dtype, options)
MODELS = {
    # biases everywhere; heads wider than hidden / heads
    "llama-biases": ("Llama", dict(attention_bias=True, mlp_bias=True, head_dim=24), F32, {}),
    # one kv head; positions stretched; the config of transformers 4, the head tied and stored
    "llama-linear-mqa": ("Llama", dict(num_key_value_heads=1, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="linear", factor=2.5, rope_theta=10000.0)), F16, dict(config=version4, weights=with_head)),
    # the last prompt is longer than the trained length, and the one before grows past it
    "llama-dynamic": ("Llama", dict(max_position_embeddings=40, rope_parameters=dict(
        rope_type="dynamic", factor=4.0, rope_theta=10000.0)), BF16, {}),
    # as many kv heads as heads; attention scaled by yarn
    "llama-yarn-mha": ("Llama", dict(num_key_value_heads=4, hidden_act="gelu", rope_parameters=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=10000.0)), BF16,
        dict(config=version4)),
    # shards
    "llama-llama3-sharded": ("Llama", dict(num_hidden_layers=3, rope_parameters=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16, rope_theta=500000.0)), F16, dict(save=dict(max_shard_size="100KB"))),
    # the config of transformers 5, a window shorter than the prompts
    "mistral-window": ("Mistral", dict(sliding_window=9, head_dim=16), BF16, {}),
    # windows from the second layer on
    "qwen2-window": ("Qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=8,
                                   max_window_layers=1, tie_word_embeddings=True), BF16, {}),
    "qwen3-bias": ("Qwen3", dict(attention_bias=True, head_dim=24, tie_word_embeddings=True), F32, {}),
    # experts one by one, a window
    "mixtral-window": ("Mixtral", dict(intermediate_size=48, num_local_experts=4, num_experts_per_tok=2,
                                       sliding_window=12), BF16, {}),
    # a layer's experts in one tensor
    "mixtral-fused": ("Mixtral", dict(intermediate_size=48, num_local_experts=3, num_experts_per_tok=2), F32,
                      dict(save=dict(save_original_format=False))),
    # the first layer dense by name; chosen weights sum to 1
    "qwen3moe-dense-first": ("Qwen3Moe", dict(moe_intermediate_size=40, num_experts=6, num_experts_per_tok=3,
                                              norm_topk_prob=True, mlp_only_layers=[0], head_dim=16), BF16, {}),
    # every second layer a mixture, experts in one tensor, weights as the router gives them
    "qwen3moe-step-fused": ("Qwen3Moe", dict(moe_intermediate_size=40, num_experts=4, num_experts_per_tok=2,
                                             decoder_sparse_step=2, norm_topk_prob=False), BF16,
                            dict(save=dict(save_original_format=False))),
    "gpt2-gelu-bare": ("GPT2", dict(activation_function="gelu", n_inner=96), F32, dict(weights=without_prefix)),
    # GELU without tanh, as the first Gemma's config says; heads wider than hidden / heads
    "gemma-gelu": ("Gemma", dict(head_dim=24, hidden_act="gelu"), BF16, {}),
    # every second layer with a window; caps so low that they matter
    "gemma2-caps": ("Gemma2", dict(num_hidden_layers=3, head_dim=32, sliding_window=9, query_pre_attn_scalar=20,
                                   attn_logit_softcapping=2.0, final_logit_softcapping=5.0), BF16, {}),
    # two layers of three with a window and a rope of their own; the other rope stretched
    "gemma3-ropes": ("Gemma3Text", dict(
        num_hidden_layers=3, head_dim=16, num_key_value_heads=1, sliding_window=8, query_pre_attn_scalar=24,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=100000.0),
            sliding_attention=dict(rope_type="default", rope_theta=1000.0))), BF16, dict(config=gemma3_version4)),
    # heads as wide as published ones
    "gemma3-wide": ("Gemma3Text", dict(
        hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=256,
        sliding_window=8, layer_types=["full_attention", "sliding_attention"]), BF16, {}),
    # q, k and v in one tensor, gate and up in another; a window
    "phi3-window": ("Phi3", dict(**NO_TOKENS, sliding_window=9, original_max_position_embeddings=128), BF16, {}),
    # three quarters of a head turn, by other frequencies beyond 40 positions: a prompt is longer, another comes to be
    "phi3-long": ("Phi3", dict(**NO_TOKENS, max_position_embeddings=160, original_max_position_embeddings=40, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
        short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5],
        long_factor=[1.5, 2.0, 3.0, 4.5, 6.0, 9.0])), BF16, dict(config=phi3_version4)),
    # every third layer without rope
    "smollm3-norope": ("SmolLM3", dict(**NO_TOKENS, num_hidden_layers=3, no_rope_layer_interval=3, attention_bias=True), BF16, {}),
    # norms behind attention and the MLP, those of q and k over all heads
    "olmo2-norms": ("Olmo2", dict(**NO_TOKENS, num_hidden_layers=2), BF16, {}),
    # attention unscaled, the head its own
    "gpt2-relu-untied": ("GPT2", dict(activation_function="relu", scale_attn_weights=False,
                                      tie_word_embeddings=False, initializer_range=0.06), F16, {}),
}


def classes(family):
    own = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}
    return getattr(transformers, family + "Config"), getattr(transformers, own.get(family, family + "ForCausalLM"))


def randomise(model, seed, deviation):
    """Every parameter random, those that start as 0 or 1 too."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            is_norm = any(s in name for s in ("norm", "ln_")) and name.endswith("weight")
            around = 0 if "Gemma" in type(model).__name__ else 1  # of Gemma's norms the weight less 1 is stored
            p.copy_(around + 0.1 * r if is_norm else deviation * r)


class Unclear(Exception):
    pass


def clear(values, best, margin):
    top = torch.topk(values, best + 1).values
    if top[best - 1] - top[best] < margin * values.abs().max():
        raise Unclear


def watch_routers(model):
    for module in model.modules():
        if type(module).__name__.endswith("TopKRouter"):
            def hook(m, _, out):
                for row in out[0].reshape(-1, m.num_experts):
                    if m.top_k < m.num_experts:
                        clear(torch.softmax(row.float(), -1), m.top_k, ROUTER_MARGIN)
            module.register_forward_hook(hook)


def golden_case(load, prompt):
    model = load()
    watch_routers(model)
    ids = torch.tensor([prompt])
    out = model(ids, use_cache=True)
    logits = out.logits[0]
    loss = None
    if len(prompt) > 1:
        loss = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item()
    greedy, last = [], logits[-1]
    rope = getattr(model.config, "rope_parameters", None) or {}
    switch = rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None
    for i in range(GREEDY):
        clear(last, 1, LOGIT_MARGIN)
        greedy.append(int(last.argmax()))
        if i + 1 < GREEDY:
            if len(prompt) + len(greedy) - 1 == switch:  # `generate` computes all keys again beyond this length
                out = model(torch.tensor([prompt + greedy]), use_cache=True)
            else:
                out = model(torch.tensor([[greedy[-1]]]), past_key_values=out.past_key_values, use_cache=True)
            last = out.logits[0, -1]
    return dict(prompt=prompt, logits_last=[float(f"{x:.8g}") for x in logits[-1].tolist()], greedy=greedy, loss=loss)


def make(name, seed):
    family, args, dtype, _ = MODELS[name]
    config_class, model_class = classes(family)
    config = config_class(**{**(SMALL_GPT2 if family == "GPT2" else SMALL), **args})
    config._attn_implementation = "eager"
    model = model_class(config)
    randomise(model, seed, config.initializer_range)
    return model.to(dtype).eval()


def golden_cases(load, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        return [golden_case(load, torch.randint(0, 256, (n,), generator=g).tolist()) for n in PROMPTS]


def build_clear(name, folder):
    """Saves the model of the first seed whose choices are clear. What transformers reads back is the reference; names
    and spellings are changed after it."""
    family, _, _, options = MODELS[name]
    load = lambda: classes(family)[1].from_pretrained(folder, dtype=F32, attn_implementation="eager")
    for seed in range(1, 5000):
        try:
            golden_cases(lambda: make(name, seed).to(F32), seed)
            shutil.rmtree(folder, ignore_errors=True)
            make(name, seed).save_pretrained(folder, **options.get("save", {}))
            return seed, golden_cases(load, seed)
        except Unclear:
            pass
    raise SystemExit(f"{name}: no seed gives clear choices")


def build(name, out):
    folder, options = out / "models" / name, MODELS[name][3]
    seed, cases = build_clear(name, folder)
    golden = dict(source=f"transformers {transformers.__version__}, {pathlib.Path(__file__).name}, seed {seed}",
                  arithmetic="float32 on the stored weights", cases=cases)
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    if "weights" in options:
        options["weights"](folder)
    if "config" in options:
        path = folder / "config.json"
        path.write_text(json.dumps(options["config"](json.loads(path.read_text())), indent=2, sort_keys=True) + "\n")
    for f in folder.iterdir():
        f.chmod(0o644)
    print(name, "seed", seed, sum(f.stat().st_size for f in folder.iterdir()), "bytes", flush=True)


ROPES = [
    (dict(rope_type="default", rope_theta=10000.0), 128, 4096, []),
    (dict(rope_type="default", rope_theta=1000000.0), 64, 32768, []),
    (dict(rope_type="linear", rope_theta=10000.0, factor=8.0), 96, 4096, []),
    (dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0), 64, 2048, [1, 2048, 2049, 5000, 8192]),
    (dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
          original_max_position_embeddings=8192), 64, 131072, []),
    (dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0), 128,
     8192, []),
    (dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768), 128,
     131072, []),
    (dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096, mscale=1.0,
          mscale_all_dim=0.8, beta_fast=32, beta_slow=1), 64, 163840, []),
    (dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096,
          truncate=False, beta_fast=32.0, beta_slow=1.0), 64, 131072, []),
    (dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, attention_factor=0.75), 32, 512, []),
    (dict(rope_type="yarn", rope_theta=10000.0, factor=None, original_max_position_embeddings=256), 32, 1024, []),
]


def build_ropes(out):
    rows = []
    for rope, head_dim, max_pos, lengths in ROPES:
        config = transformers.LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim,
                                          max_position_embeddings=max_pos, rope_parameters=dict(rope))
        kind = rope["rope_type"]
        init = ROPE_INIT_FUNCTIONS.get(kind) or \
            transformers.models.llama.modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters
        for length in lengths or [None]:
            at = dict(seq_len=torch.tensor(length)) if length else {}
            freq, factor = init(config, device=torch.device("cpu"), **at)
            rows.append(dict(rope_parameters=rope, head_dim=head_dim, max_position_embeddings=max_pos,
                             length=length, inv_freq=[float(f"{x:.9g}") for x in freq.tolist()],
                             attention_factor=float(factor)))
    (out / "rope.json").write_text(json.dumps(rows, separators=(",", ":")).replace("},{\"rope_p", "},\n{\"rope_p") + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "tests/data")
    parser.add_argument("names", nargs="*", default=[*MODELS, "rope"])
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name in args.names:
        build_ropes(args.out) if name == "rope" else build(name, args.out)


if __name__ == "__main__":
    main()
