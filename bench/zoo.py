# SPDX-License-Identifier: Apache-2.0
"""The models of CURATOR's evaluation (paper 004): sizes, and how transformers makes them. Used by tools/make_zoo.py, which
exports them, and by bench/engine.py, which times them in PyTorch."""
MODEL, MANIFEST, DATA = "model.onnx", "manifest.json", "weights.bin"

BERT, GPT2, LLAMA = "bert", "gpt2", "llama"
KEYS = ("kind", "hidden", "layers", "heads", "kv_heads", "inner", "vocab", "positions", "theta")
SIZES = {
    "bert-tiny": (BERT, 128, 2, 2, 2, 512, 30522, 512, 0),
    "bert-mini": (BERT, 256, 4, 4, 4, 1024, 30522, 512, 0),
    "bert-small": (BERT, 512, 4, 8, 8, 2048, 30522, 512, 0),
    "bert-medium": (BERT, 512, 8, 8, 8, 2048, 30522, 512, 0),
    "bert-base": (BERT, 768, 12, 12, 12, 3072, 30522, 512, 0),
    "bert-large": (BERT, 1024, 24, 16, 16, 4096, 30522, 512, 0),
    "gpt2": (GPT2, 768, 12, 12, 12, 3072, 50257, 1024, 0),
    "gpt2-medium": (GPT2, 1024, 24, 16, 16, 4096, 50257, 1024, 0),
    "openllama-3b": (LLAMA, 3200, 26, 32, 32, 8640, 32000, 2048, 1e4),
    "llama3-8b": (LLAMA, 4096, 32, 32, 8, 14336, 128256, 8192, 5e5),
}
TINY = {BERT: (BERT, 32, 2, 2, 2, 64, 48, 16, 0), GPT2: (GPT2, 32, 2, 2, 2, 128, 48, 16, 0),
        LLAMA: (LLAMA, 64, 2, 4, 2, 96, 48, 16, 1e4)}


class Spec:
    """A model: its sizes, by name."""

    def __init__(self, name, layers=None, sizes=None):
        self.name = name
        self.sizes = sizes or dict(zip(KEYS, SIZES[name]))
        if layers:
            self.sizes["layers"] = layers
        for key, value in self.sizes.items():
            setattr(self, key, value)
        self.encoder = self.kind == BERT
        self.output = "last_hidden_state" if self.encoder else "logits"

    def config(self):
        import transformers as T

        if self.kind == BERT:
            return T.BertConfig(vocab_size=self.vocab, hidden_size=self.hidden, num_hidden_layers=self.layers,
                                num_attention_heads=self.heads, intermediate_size=self.inner,
                                max_position_embeddings=self.positions)
        if self.kind == GPT2:
            return T.GPT2Config(vocab_size=self.vocab, n_embd=self.hidden, n_layer=self.layers, n_head=self.heads,
                                n_positions=self.positions, n_inner=self.inner)
        return T.LlamaConfig(vocab_size=self.vocab, hidden_size=self.hidden, intermediate_size=self.inner,
                             num_hidden_layers=self.layers, num_attention_heads=self.heads,
                             num_key_value_heads=self.kv_heads, max_position_embeddings=self.positions,
                             rope_parameters={"rope_type": "default", "rope_theta": self.theta})

    def make(self, config=None):
        """Returns the module of transformers, on the default device and in the default type."""
        import transformers as T

        config = config or self.config()
        if self.kind == BERT:
            return T.BertModel(config, add_pooling_layer=False)
        return (T.GPT2LMHeadModel if self.kind == GPT2 else T.LlamaForCausalLM)(config)

    def forward(self, model, ids):
        """Returns what the exported graph returns."""
        if self.encoder:
            return model(ids).last_hidden_state
        return model(ids, use_cache=False, logits_to_keep=1).logits

    def flop(self, batch, length):
        """Returns the operations of a pass: of products, and of attention, of which a decoder's is half."""
        h, head = self.hidden, self.hidden // self.heads
        products = 2 * h * h + 2 * h * head * self.kv_heads + (3 if self.kind == LLAMA else 2) * h * self.inner
        attention = 2 * h * length * (1 if self.encoder else 0.5)
        last = 0 if self.encoder else batch * h * self.vocab
        return 2 * (self.layers * batch * length * (products + attention) + last)


def of_manifest(manifest):
    return Spec(manifest["model"], sizes=dict(manifest["sizes"]))


def tiny(kind):
    return Spec(kind, sizes=dict(zip(KEYS, TINY[kind])))


def moments(param, shape):
    """Returns mean and deviation of a parameter's random values: those that keep activations near 1."""
    if len(shape) == 1:
        return (1.0, 0.1) if param.endswith("weight") else (0.0, 0.02)
    if "embed" in param or "wte" in param or "wpe" in param:
        return 0.0, 0.5
    return 0.0, 0.7 / (shape[0] if ".c_" in param else shape[1]) ** 0.5


def without_masks():
    """Lets attention without padding take no mask, also where PyTorch traces: a decoder's is causal by the kernel's flag."""
    from transformers.models.bert import modeling_bert
    from transformers.models.gpt2 import modeling_gpt2
    from transformers.models.llama import modeling_llama

    for module, name in ((modeling_bert, "create_bidirectional_mask"), (modeling_bert, "create_causal_mask"),
                         (modeling_gpt2, "create_causal_mask"), (modeling_llama, "create_causal_mask")):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: None)
