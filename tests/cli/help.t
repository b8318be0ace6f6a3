# SPDX-License-Identifier: Apache-2.0
# What the command says of itself.
$ tilewright --help
  tilewright VERB [OBJECT] [flags]
  
    doctor                             what this machine offers, what is missing and what that costs
    run       MODEL|M.onnx|M.tw        generate text (tilewright run M.onnx --help: outputs of ONNX models)
    chat      MODEL                    a conversation: turns, the cache kept between them, line editing
    verify    MODEL|M.onnx|M.tw        compare logits, greedy tokens and loss with a reference file (tilewright verify M.onnx --help: ONNX models)
    bench     MODEL|M.onnx|M.tw        tokens per second beside what this machine could do (tilewright bench M.onnx --help: ONNX models)
    ppl       MODEL -f FILE            perplexity of a text
    tokenize  MODEL [TEXT]             ids and pieces of a text or a chat; MODEL may be a tokenizer.json
    compile   MODEL|M.onnx|M.tw        lower a model to a schedule, written as JSON (tilewright compile M.onnx --help: ONNX models)
    check     S.json                   prove a schedule safe, or say why it is not
    kernel    NAME k=v ...             a generated GPU kernel: what it takes, its text, a checked run
    tune      gemm|strips|FILE.json    measure, train and evaluate in one run, with a report
    measure   gemm [type=T]|FILE.json  measure problems that models learn from
    train     gemm [type=T]|FILE.json  compile a store's measurements into an artefact
    eval      gemm [type=T]|FILE.json  what choices are worth on problems that no model has seen
    select    ARTEFACT m=M ...         the configuration that an artefact chooses for a problem
    explain   ARTEFACT m=M ...         why an artefact chooses a configuration
    export    STORE                    the measurements of a store as text
    import    STORE FILE               add exported measurements, T4 or a cache of Kernel Tuner to a store
    trace     MODEL|kernel gemm|attention WORD... when each warp of a kernel or worker of a model's step did what, and what it waited for
    build     M.onnx -o M.tw           an ONNX model into a package that starts at once
  
  "tilewright VERB --help" shows a verb's flags and an example. Version 0.1.0.
$ tilewright --version
  tilewright 0.1.0
$ for verb in doctor run chat verify bench ppl tokenize compile check kernel trace; do tilewright $verb --help; echo; done
  tilewright doctor [flags]
  what this machine offers, what is missing and what that costs
  
  flags:
    --json                       print as JSON
  
  example:
    tilewright doctor
  
  tilewright run MODEL|M.onnx|M.tw [flags]
  generate text (tilewright run M.onnx --help: outputs of ONNX models)
  
  flags:
    -p TEXT                      the prompt; - reads standard input
    --ids 1,2,3                  the prompt as token ids
    --prompts FILE               many prompts, a line of JSON each: {"prompt": TEXT} or {"ids": [1,2,3]}; - reads standard input
    --sequences N                with --prompts: decode up to N together (default 8)
    -n N                         new tokens at most (default 128)
    -s SEED                      of the sampling (default: from the clock)
    --temp T                     0 is greedy (default of this and the next four: generation_config.json's, else greedy)
    --top-k K                    only the K most likely; 0: all
    --top-p P                    only the most likely that sum to P
    --min-p P                    only those at least P times as likely as the most likely
    --repetition-penalty P       divide the logits of ids already there; 1: none
    --presence-penalty P         take P from the logits of ids that were generated
    --frequency-penalty P        likewise, P for each time
    --stop TEXT                  end before this text; may be repeated (default: generation_config.json's stop strings)
    --ignore-eos                 go on after an end-of-sequence token
    --chat                       wrap the prompt in the model's chat template
    --system TEXT                a system message
    --chat-arg NAME=JSON         a variable for the template, such as enable_thinking=false; may be repeated
    --tools FILE                 a JSON list of tools for the template
    --chat-template NAME         which of the model's templates (default: default; with tools, tool_use)
    --schedule S.json            run this decode schedule, once the check accepts it
    --quiet                      no line about speed
    --json                       print ids, text and timings as JSON
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
  
  example:
    tilewright run models/demo -p "In the beginning" -n 64 --temp 0.8
  
  tilewright chat MODEL [flags]
  a conversation: turns, the cache kept between them, line editing
  
  flags:
    -n N                         new tokens of an answer at most (default 0: as many as the context holds)
    -s SEED                      of the sampling (default: from the clock)
    --temp T                     0 is greedy (default of this and the next four: generation_config.json's, else greedy)
    --top-k K                    only the K most likely; 0: all
    --top-p P                    only the most likely that sum to P
    --min-p P                    only those at least P times as likely as the most likely
    --repetition-penalty P       divide the logits of ids already there; 1: none
    --presence-penalty P         take P from the logits of ids that were generated
    --frequency-penalty P        likewise, P for each time
    --stop TEXT                  end before this text; may be repeated (default: generation_config.json's stop strings)
    --ignore-eos                 go on after an end-of-sequence token
    --system TEXT                a system message
    --chat-arg NAME=JSON         a variable for the template, such as enable_thinking=false; may be repeated
    --tools FILE                 a JSON list of tools for the template
    --chat-template NAME         which of the model's templates (default: default; with tools, tool_use)
    --load FILE                  go on with messages that /save wrote
    --no-history                 neither read nor keep the lines typed before
    --verbose                    a line about tokens and speed after each turn
    --json                       print a line of JSON a turn
    --schedule S.json            decode by this schedule, once the check accepts it
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
  
  example:
    tilewright chat ~/models/Qwen3-0.6B --system "Answer in one sentence."
  
  tilewright verify MODEL|M.onnx|M.tw [flags]
  compare logits, greedy tokens and loss with a reference file (tilewright verify M.onnx --help: ONNX models)
  
  flags:
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
    --golden FILE                the reference (default: golden.json in the model's folder)
    --rope auto|float|stored     frequencies as float32, or rounded to the weights' type (default: whichever agrees)
    --chunk N                    positions that a step of a prompt takes at most (default: as `run` has them)
    -s SEED                      of the random prompts for quantised weights
    --json                       print the verdict as JSON
  
  example:
    tilewright verify models/demo
  
  tilewright bench MODEL|M.onnx|M.tw [flags]
  tokens per second beside what this machine could do (tilewright bench M.onnx --help: ONNX models)
  
  flags:
    --shape NAME                 random weights of a known shape instead of a model: llama-1b, llama-8b, ...
    --dtype f32|f16|bf16         of --shape's weights (default bf16)
    -p N[,N...]                  prompt tokens, read at once (default 512; 0: skip)
    -n N                         tokens decoded one by one (default 128; 0: skip)
    -d N                         tokens in the cache before either (default 0)
    -r N                         repetitions (default 5)
    --sequences N                prompts and tokens of N sequences together (default 1)
    -o md|csv|json               how to print (default md)
    --json                       the same as -o json
    --explain                    also who computes each product, on stderr
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
  
  example:
    tilewright bench --shape llama-1b --weights int8 -p 128,512 -n 64
  
  tilewright ppl MODEL -f FILE [flags]
  perplexity of a text
  
  flags:
    -f FILE                      the text; - for standard input
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
    --json                       print as JSON
  
  example:
    tilewright ppl models/demo -f models/demo/heldout.txt -c 256
  
  tilewright tokenize MODEL [TEXT] [flags]
  ids and pieces of a text or a chat; MODEL may be a tokenizer.json
  
  flags:
    --golden FILE                compare with a reference file instead
    --no-special                 leave out what the post-processor adds (BOS and the like)
    --chat MESSAGES.json         a conversation's prompt by the model's chat template instead
    --tools FILE                 with --chat: a JSON list of tools
    --chat-arg NAME=JSON         with --chat: a variable for the template; may be repeated
    --chat-template NAME         with --chat: which of the model's templates
    --json                       print as JSON
  
  example:
    tilewright tokenize models/demo "In the beginning"
  
  tilewright compile MODEL|M.onnx|M.tw [flags]
  lower a model to a schedule, written as JSON (tilewright compile M.onnx --help: ONNX models)
  
  flags:
    -o S.json                    where to write (default: standard output)
    --workers N                  workers (default: every core, or every SM)
    --target cpu|cuda|sm_90a|... what it is for (default cpu); cuda is the GPU here, a name needs --workers, its SMs
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --schema                     only describe such files, as JSON Schema
    --tokens N                   positions a step takes at most (default 1: decode)
    --weights native|int8|int4   weights as stored, or quantised
    --group 32|64|128            columns that share a scale
    -c N                         positions kept (default: the model's)
    --shape NAME                 a known shape instead of a model
  
  example:
    tilewright compile models/demo -o s.json --workers 4
  
  tilewright check S.json [flags]
  prove a schedule safe, or say why it is not
  
  flags:
    --format auto|tilewright|ranges|amk the file's format (default auto); ranges: a graph's; amk: AutoMegaKernel's
    --explain                    also what is ordered around a race, and a shortest run that shows it
    --dot FILE                   write who waits for whom as a Graphviz graph, findings marked
    --json                       print the verdict and every finding as JSON
  
  example:
    tilewright check s.json
    tilewright check --format amk megakernel.json
  
  tilewright kernel NAME k=v ... [flags]
  a generated GPU kernel: what it takes, its text, a checked run
  
  flags:
    --target NAME                whose rules it keeps: sm_80, sm_89, sm_90a, ... (default sm_90a)
    --emit ir|ptx|sass           print its text; sass needs ptxas and cuobjdump or nvdisasm
    --artefact FILE              the configuration is what this artefact chooses
    --emulate                    run it on the processor, with every checker, on random data
    --run                        check it on the GPU, then time it
    --seed N                     of the data and the emulator's interleaving (default 1)
    --list                       show the words that describe the kernel, with their values
    --space                      show its configurations' parameters, and how many are legal
    --json                       print as JSON
  
  example:
    tilewright kernel gemm m=64 n=64 k=256 type=f16 kg=4 --emulate
    tilewright kernel gemm m=2560 n=16 k=2560 --emit ptx
    tilewright kernel gemm type=bf16 m=512 n=4096 k=4096 tb=1 --artefact gemm.select
    tilewright kernel attention heads=8 kv_heads=2 head=64 queries=256 causal=1 --emulate
    tilewright kernel gemm --list
  
  tilewright trace MODEL|kernel gemm|attention WORD... [flags]
  when each warp of a kernel or worker of a model's step did what, and what it waited for
  
  flags:
    --context N                  tokens in the cache before the traced ones (default 0)
    --steps N                    tokens decoded one by one (default 1)
    --prefill N                  read a prompt of N tokens at once instead of decoding
    -r N                         runs, of which the fastest is kept (default: as many as take half a second)
    -o FILE                      write the trace to this file; - is standard output, without the summary
    --format perfetto|chrome|html|summary of the file (default: by its name: .json is chrome, .html html, .txt summary, others perfetto)
    --analyse                    print what waits are to blame for, the critical path and what edits would gain, too
    --what-if NAME=FACTOR,...    predict the time if what has this name took so many times as long; NAME=+1: if a ring had a stage more
    --json                       print the summary as JSON
    --schedule S.json            decode by this schedule, once the check accepts it
    --weights native|int8|int4   weights as stored, or quantised at load (default native)
    --group 32|64|128            columns that share a scale (default: a row for int8, 64 for int4)
    --activations float|bf16|int8 on a processor: as they are, or rounded where they enter a product (default float)
    -t N                         threads (default: every core)
    -c N                         positions kept (default: the model's, at most 4096)
    --config C.json              choices of the lowering and of a GPU's machine; flags win over it
    --isa LIST                   use only these instruction sets, e.g. avx2, or none
    --device auto|cpu|cuda[:N]   where to run (default auto: a GPU that covers the model, else cpu)
  
  example:
    tilewright trace models/demo --context 100 -o step.pftrace
  
# Nothing at all is wrong use, and the help goes to standard error.
$ tilewright 2>/dev/null
  [2]
$ tilewright 2>&1 >/dev/null | head -1
  tilewright VERB [OBJECT] [flags]
# Output that cannot be written is an error.
$ tilewright --help >/dev/full
  tilewright: (standard output): cannot write
  [1]
$ tilewright compile models/demo >/dev/full
  tilewright: (standard output): cannot write: No space left on device
  [1]
