#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a random model of a real size, with the reference that transformers computes from it: what `verify` reads.

    tools/make_large_model.py --shape llama-1b --out /tmp/llama-1b && tilewright verify /tmp/llama-1b --device cuda

Weights are bf16; golden.json is float32 arithmetic on them (no TF32), with the logits of each prompt and the greedy tokens
after it. A GPU does it in half a minute; without one it takes some minutes. Needs PyTorch and transformers 5.
"""
import argparse
import json
import pathlib

import torch
import transformers

SHAPES = {  # as `tilewright bench --shape` knows them
    "llama-1b": dict(num_hidden_layers=16, hidden_size=2048, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                     intermediate_size=8192, vocab_size=128256, tie_word_embeddings=True),
    "qwen3-0.6b": dict(num_hidden_layers=28, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                       intermediate_size=3072, vocab_size=151936, tie_word_embeddings=True),
}
PROMPTS = [1, 9, 130]
GREEDY = 64


def randomise(model, seed):
    g = torch.Generator(model.device).manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g, device=p.device)
            p.copy_(1 + 0.1 * r if "norm" in name else 0.02 * r)


def golden_case(model, prompt):
    ids = torch.tensor([prompt], device=model.device)
    out = model(ids, use_cache=True)
    logits = out.logits[0].float()
    loss = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item() if len(prompt) > 1 else None
    greedy, last = [], logits[-1]
    for _ in range(GREEDY):
        greedy.append(int(last.argmax()))
        out = model(torch.tensor([[greedy[-1]]], device=model.device), past_key_values=out.past_key_values, use_cache=True)
        last = out.logits[0, -1]
    return dict(prompt=prompt, logits_last=[float(f"{x:.8g}") for x in logits[-1].tolist()], greedy=greedy, loss=loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="llama-1b")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.backends.cuda.matmul.allow_tf32 = False
    family = "Qwen3" if args.shape.startswith("qwen3") else "Llama"
    config = getattr(transformers, family + "Config")(max_position_embeddings=2048, **SHAPES[args.shape])
    model_class = getattr(transformers, family + "ForCausalLM")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = model_class(config).to(torch.bfloat16)
    randomise(model, args.seed)
    model.save_pretrained(args.out)
    del model
    model = model_class.from_pretrained(args.out, dtype=torch.float32, attn_implementation="eager").to(device).eval()
    g = torch.Generator().manual_seed(args.seed)
    with torch.no_grad():
        cases = [golden_case(model, torch.randint(0, config.vocab_size, (n,), generator=g).tolist()) for n in PROMPTS]
    golden = dict(source=f"transformers {transformers.__version__}, {pathlib.Path(__file__).name}, seed {args.seed}",
                  arithmetic="float32 on the stored weights", cases=cases)
    (args.out / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
