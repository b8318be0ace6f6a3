/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: a model, lowered, checked and running; prompts in, tokens out. */
#ifndef TILEWRIGHT_ENGINE_H
#define TILEWRIGHT_ENGINE_H

#include "tilewright/schedule.h"
#include "tilewright/tokenizer.h"
#include "tilewright/vm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_engine tw_engine;

typedef struct tw_engine_options {
    int workers;      /* threads; 0: every core this process may run on */
    int64_t context;  /* positions kept; 0: what the model was made for, at most 4096 */
    int64_t prefill;  /* positions a prefill step takes at most; 0: 512, or 8192 by a GPU's kernels for prompts */
    tw_dtype weights; /* TW_I8, TW_I4: quantise at load; 0 (TW_F32): as stored */
    int group;        /* columns a scale; 0: a row (int8), 64 (int4) */
    bool dequantise;  /* with weights: run the floats that the integers stand for, in plain C; a reference */
    bool limit_isa;   /* use only the instruction sets of `isa` (TW_CPU_*) */
    uint32_t isa;
    bool no_vendor;             /* own matrix products only */
    tw_activations activations; /* a processor: what products take of them */
    /* Round rope's frequencies to the type of the stored weights. transformers keeps them in float32 when it loads a
       checkpoint, and so does this engine; but a model built in memory and converted with .to(bfloat16) has them
       rounded, and references computed from one differ by more than float arithmetic allows. */
    bool stored_rope;
    /* Choices of the lowering and of a GPU's machine; NULL: all are chosen. Those above win where they are given: its
       weights, group, max_seq (context), tokens (prefill) and, on a processor, workers. Read by tw_engine_open alone.
     */
    const tw_schedule_config *config;
    const char *schedule; /* a JSON file: the decode program, instead of lowering; checked like any other */
    /* "cpu" (NULL), "cuda" or "cuda:N": GPU number N, or "auto": the first GPU where there is one and it covers the
       model, unless workers, isa or schedule say that it is for a processor, else the processor. On a GPU, workers are
       its SMs, and steps have at most 8 positions; prompts have kernels of their own where these cover
       the model and the GPU. */
    const char *device;
    int64_t memory_limit; /* bytes of the device's memory that may be used; 0: all that is available */
    bool traced;          /* a GPU: record what its multiprocessors do in every step, for engine/trace.h */
    bool emulate;         /* for tests: the GPU's kernel in the emulator, with `workers` SMs (0: 2) */
    uint64_t seed;        /* of its interleaving */
} tw_engine_options;

/* Lowers, checks, packs. TW_ERR_UNSUPPORTED: no such GPU, or one that does not cover the model. `model` must outlive
 * the engine. The caller closes it. One thread at a time uses an engine. */
tw_status tw_engine_open(tw_engine **out, const tw_model *model, const tw_engine_options *options, tw_diag *diag);
void tw_engine_close(tw_engine *e); /* NULL is fine */

int64_t tw_engine_context(const tw_engine *e);
int64_t tw_engine_position(const tw_engine *e); /* positions fed so far */
int tw_engine_workers(const tw_engine *e);
bool tw_engine_on_gpu(const tw_engine *e);        /* or in the emulator */
const char *tw_engine_device(const tw_engine *e); /* "cpu", or the GPU's name */
int64_t tw_engine_tape_bytes(const tw_engine *e); /* weights as packed */
/* Memory in bytes. On a GPU it is the GPU's, as far as the engine allocates it. On a processor `peak` is what of the
   process was resident at once, with the pages of files that it maps; weights that are read there are not packed. */
typedef struct tw_engine_memory {
    int64_t peak;    /* The most at once so far. */
    int64_t weights; /* Weights as packed, and the model's tables. */
    int64_t caches;  /* Keys and values of the whole context, of all sequences. */
} tw_engine_memory;
tw_engine_memory tw_engine_memory_of(const tw_engine *e);
/* Bytes that one decoded token streams at a position: weights, and keys and values of what it sees. */
int64_t tw_engine_streamed_bytes(const tw_engine *e, int64_t position);
/* Multiply-adds times two of `n` positions after `position`: products and attention; logits of the last alone. */
double tw_engine_operations(const tw_engine *e, int64_t position, int64_t n);
void tw_engine_explain(const tw_engine *e, char *out, size_t size);
/* Lists products as tw_vm_products does. A GPU has none. */
int tw_engine_products(const tw_engine *e, tw_vm_product *out, int most);
/* Chooses who computes products as tw_vm_choose does. On a GPU only prompts have a choice, of the configurations of
   their kernels (`tilewright tune gemm`). TW_ERR_UNSUPPORTED: the GPU's machine runs prompts in other ways. */
tw_status tw_engine_choose(tw_engine *e, const char *artefact, tw_diag *diag);

/* Forgets what was fed beyond `position` (0: everything). */
void tw_engine_rewind(tw_engine *e, int64_t position);

/* Feeds `n` ids after what was fed before. *logits: vocab floats for the position after the last, valid until the next
   call; *token: the most likely id. Either may be NULL. A prompt that does not fit the context fails, naming both. */
tw_status tw_engine_feed(tw_engine *e, const int32_t *ids, int64_t n, const float **logits, int32_t *token,
                         tw_diag *diag);

/* `n` greedy steps: ids[0] follows `id`, which is fed after what was fed before, and so on. On a GPU they are few
   launches. *seconds (may be NULL) is by the host's clock: on a GPU from before a launch until it is known to be over.
 */
tw_status tw_engine_greedy(tw_engine *e, int32_t id, int64_t n, int32_t *ids, double *seconds, tw_diag *diag);

/* Bytes a second of reading what a token streams, measured now: the ceiling of decoding. A model that fits in the
   processor's caches is read from there. */
tw_status tw_engine_measure_bandwidth(const tw_engine *e, double *bytes_per_second, tw_diag *diag);

/* Operations a second, measured now, that `n` positions fed at once cannot pass; see tw_vm_measure_arithmetic. `what`
   names the unit: "f32", "amx-bf16 in 3 passes". TW_ERR_UNSUPPORTED on a GPU. */
tw_status tw_engine_measure_arithmetic(const tw_engine *e, int64_t n, double *operations, char *what, size_t size,
                                       tw_diag *diag);

/* Loads what a prompt of `n` ids will need, so that the first is not slower than the next. */
tw_status tw_engine_warm(tw_engine *e, int64_t n, tw_diag *diag);

/* Negative log-likelihood (nats, summed in double) of ids[1..n) given what comes before each, from position 0.
   The engine is rewound first. */
tw_status tw_engine_score(tw_engine *e, const int32_t *ids, int64_t n, double *nll, tw_diag *diag);

/* Perplexity over consecutive, non-overlapping chunks of `context` ids, each from position 0; a last chunk of one id is
   dropped. *nll: the mean over *predictions. Calls progress(context, done, total) between chunks unless NULL. */
typedef void tw_progress_fn(void *user, int64_t done, int64_t total);
tw_status tw_engine_perplexity(tw_engine *e, const int32_t *ids, int64_t n, int64_t context, double *nll,
                               int64_t *predictions, tw_progress_fn *progress, void *user, tw_diag *diag);

/* ---- sampling and generation ---- */

typedef struct tw_sampling {
    double temperature; /* 0 (or below 1/1024): greedy */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1 (or 0): all */
    double min_p;       /* least probability relative to the most likely; 0: all */
    uint64_t seed;
    double
        repetition_penalty;   /* divides positive logits of ids seen before, multiplies negative ones; 1 (or 0): none */
    double presence_penalty;  /* subtracted once from the logit of each id generated before */
    double frequency_penalty; /* subtracted from an id's logit once for each time it was generated before */
} tw_sampling;

typedef struct tw_sampler tw_sampler;
tw_status tw_sampler_open(tw_sampler **out, const tw_sampling *s, int64_t vocab, tw_diag *diag);
void tw_sampler_close(tw_sampler *s); /* NULL is fine */
/* Counts an id of the prompt. The repetition penalty applies to it. */
void tw_sampler_see(tw_sampler *s, int32_t id);
/* Counts a generated id. All three penalties apply to it. */
void tw_sampler_take(tw_sampler *s, int32_t id);
/* Draws an id from softmax(logits / temperature) after the penalties and after top-k, top-p and min-p, in this order.
   Repetition is penalised as in transformers, before frequency and presence. Greedy takes the largest logit, and of
   equal ones the lowest id. `position` is that of the id whose logits these are. The same seed, position and logits
   draw the same id on every device. */
int32_t tw_sampler_draw(tw_sampler *s, const float *logits, int64_t position);

/* Feeds `id`, draws the token that follows, feeds that one, and so on, up to `n` tokens. take() gets each token as soon
   as it is known, and returns false to end the call. Afterwards every token taken but the last has been fed, and the
   sampler has counted all of them. On a GPU several tokens are drawn in a launch; tokens of a launch after the last
   one taken are discarded. */
typedef bool tw_take_fn(void *user, int32_t id);
tw_status tw_engine_draw(tw_engine *e, tw_sampler *s, int32_t id, int64_t n, tw_take_fn *take, void *user,
                         tw_diag *diag);

typedef enum tw_finish {
    TW_FINISH_LENGTH,
    TW_FINISH_EOS,
    TW_FINISH_STOP,
    TW_FINISH_CONTEXT,
    TW_FINISH_ABORTED
} tw_finish;

/* `text` is what became certain with this id (perhaps nothing); false ends the generation. */
typedef bool tw_emit_fn(void *user, int32_t id, const char *text);

typedef struct tw_generation {
    const int32_t *prompt;
    int64_t n_prompt;
    const int32_t *past; /* ids fed before the prompt; penalties count them too. NULL: none */
    int64_t n_past;
    int64_t limit; /* new tokens at most */
    tw_sampling sampling;
    const char *const *stop; /* strings that end the text; they are not emitted */
    int n_stop;
    bool ignore_eos;
    tw_emit_fn *emit; /* may be NULL */
    void *user;
    /* out */
    int32_t *ids; /* malloc'd, the caller frees; EOS not included */
    int64_t n_ids;
    tw_finish finish;
    double prefill_seconds; /* until the first token is known */
    double decode_seconds;  /* of n_decoded steps after that */
    int64_t n_decoded;
} tw_generation;

/* Sets sampling, penalties and stop strings to what the model's generation_config.json says. Without do_sample there,
   sampling is greedy. The stop strings are owned by the model. Other fields are not changed. */
void tw_generation_defaults(const tw_model *model, tw_generation *g);

/* `tokenizer` may be NULL: then no text is emitted and stop strings must be absent. */
tw_status tw_generate(tw_engine *e, const tw_tokenizer *tokenizer, tw_generation *g, tw_diag *diag);
const char *tw_finish_name(tw_finish f);

/* ---- many prompts ---- */

/* Several generations in one engine. Where the machine decodes several sequences together, a generation begins as soon
   as another one has ended: its prompt is read into the sequence that became free, and from then on every step decodes
   a token of each. A GPU whose prompts have kernels of their own (sm_90) has up to 128 sequences, any other up to 8, or
   of a mixture of experts 1. With angles that change with the length of a sequence there is 1. On a processor, and
   where there is 1, generations follow one another. */
typedef struct tw_batch tw_batch;

/* Opens an engine of its own for up to `sequences` (1 or more) at a time, each with options->context positions. Model
   and tokenizer must outlive it. `tokenizer` may be NULL, as in tw_generate. Errors are those of tw_engine_open. The
   caller closes it. */
tw_status tw_batch_open(tw_batch **out, const tw_model *model, const tw_engine_options *options, int64_t sequences,
                        const tw_tokenizer *tokenizer, tw_diag *diag);
void tw_batch_close(tw_batch *b); /* NULL is fine. Generations that are not complete have no ids. */

int64_t tw_batch_sequences(const tw_batch *b); /* the most that are decoded together */
tw_engine *tw_batch_engine(tw_batch *b);       /* owned by `b`, which alone feeds it */

/* Appends a generation. `g` and what it points to must stay until tw_batch_next returns it; past is NULL. A generation
   that cannot run is refused at once: without a prompt, with ids that the model lacks, with more of them than the
   context has positions, or with other fields that tw_generate refuses. */
tw_status tw_batch_add(tw_batch *b, tw_generation *g, tw_diag *diag);

/* Runs the batch until a generation is complete, and sets *out to it. *out is NULL if every generation was returned
   before. Generations are returned in the order in which they end. Meanwhile g->emit gets the text of each as soon as
   it is certain. A generation has the ids that it would have alone, drawn by its own seed; its logits may differ in
   rounding, since the device computes one sequence in another order than several. g->decode_seconds is time that it
   shared with others. On an error no generation that is not complete will be. */
tw_status tw_batch_next(tw_batch *b, tw_generation **out, tw_diag *diag);

/* ---- conversations: messages, and a cache that is kept between turns ---- */

/* A turn renders all messages, and feeds the engine only the ids after the longest prefix that its cache holds. Call
   tw_conversation_forget after feeding or rewinding the engine by other means. */
typedef struct tw_conversation tw_conversation;

typedef struct tw_conversation_options {
    const char *tools, *arguments; /* JSON, as in tw_chat_request; copied */
    int64_t now;                   /* Unix seconds, which every turn's template is given; 0: the time of opening */
} tw_conversation_options;

/* Opens an empty conversation. Engine, tokenizer and template must outlive it. `options` may be NULL. The caller closes
   it. */
tw_status tw_conversation_open(tw_conversation **out, tw_engine *e, const tw_tokenizer *t, const tw_chat *chat,
                               const tw_conversation_options *options, tw_diag *diag);
void tw_conversation_close(tw_conversation *c); /* NULL is fine */

int64_t tw_conversation_count(const tw_conversation *c); /* number of messages */
/* Appends a message. Content that is not UTF-8 is an error. */
tw_status tw_conversation_add(tw_conversation *c, const char *role, const char *content, tw_diag *diag);
/* Sets the system message, which is the first. NULL or "" removes it. */
tw_status tw_conversation_system(tw_conversation *c, const char *content, tw_diag *diag);
bool tw_conversation_undo(
    tw_conversation *c); /* removes the last user message and all after it; false: there is none */
void tw_conversation_reset(tw_conversation *c);  /* removes all messages but the system message */
void tw_conversation_forget(tw_conversation *c); /* reuses nothing of the cache in the next turn */

/* The messages as a JSON list of {"role", "content", ...}: written (malloc'd, the caller frees), and read in place of
   those there are; `path` is for the diagnostic. */
tw_status tw_conversation_write(const tw_conversation *c, char **json, tw_diag *diag);
tw_status tw_conversation_read(tw_conversation *c, const char *json, size_t size, const char *path, tw_diag *diag);

/* The part of an answer that a text belongs to. Where the answer begins with <think>, or its prompt ends with it,
   everything up to </think> is reasoning. */
typedef enum tw_turn_part { TW_TURN_REASONING, TW_TURN_ANSWER } tw_turn_part;

/* Gets the next text of an answer. Returns false to end the turn. While a prompt is read it is called with empty
   texts. */
typedef bool tw_turn_emit_fn(void *user, tw_turn_part part, const char *text);

typedef struct tw_turn {
    /* Only sampling, stop strings, ignore_eos and limit are read. A limit of 0: as many tokens as the context holds. */
    tw_generation how;
    tw_turn_emit_fn *emit; /* may be NULL */
    void *user;
    /* out */
    char *answer, *reasoning; /* complete texts, perhaps empty; freed by tw_turn_free */
    int64_t n_prompt;         /* ids of the conversation, as rendered */
    int64_t n_reused;         /* ids of the prompt that the cache already held */
    int64_t n_new;            /* ids generated */
    tw_finish finish;
    double prefill_seconds, decode_seconds; /* of n_prompt - n_reused ids, and of n_decoded steps */
    int64_t n_decoded;
} tw_turn;

/* The assistant's next message: generated, and added, also when it was cut short; one that was stopped before anything
   came is not. A failure leaves the messages as they are; TW_ERR_USAGE: they do not fit the context. */
tw_status tw_conversation_answer(tw_conversation *c, tw_turn *turn, tw_diag *diag);
void tw_turn_free(tw_turn *turn);

/* ---- comparison with a reference ---- */

typedef struct tw_verdict {
    int64_t cases, tokens; /* tokens: greedy ones that are equal */
    int64_t close;         /* those that are not, but as likely as the tolerance can tell: on a GPU only */
    double worst_logit;    /* largest |difference| over its tolerance */
    double worst_loss;     /* largest relative difference over its tolerance */
    double perplexity, expected_perplexity; /* 0: the file has none */
    int64_t choices;       /* A mixture's choices of experts that were judged, of all layers and positions. */
    int64_t choices_close; /* Those that the reference would have made otherwise, by scores as close as rounding. */
    double worst_choice;   /* Largest difference of scores or weights of a choice over its tolerance. */
} tw_verdict;

/* Compares with golden.json (see docs/engine.md): logits within 1e-3 of the largest plus 1e-4, greedy ids equal, loss
   and perplexity within 1e-4 relative. On a GPU, whose cache has the type of the stored weights, mostly 16 bits: 2e-2,
   1e-3, 5e-3, and a greedy id may be one whose logit is within twice the tolerance of the largest. TW_ERR_MISMATCH
   names the first that is not. `directory` is where the file's own references (heldout.txt) lie. */
tw_status tw_engine_verify(tw_engine *e, const tw_tokenizer *tokenizer, const char *golden, const char *directory,
                           tw_verdict *verdict, tw_diag *diag);

/* The verdict that belongs beside a speed: a prompt of a few positions and a token with the engine's kernels and with
   plain C ones, on the same packed weights; then a prompt of `prompt_length` (at most 96) with the engine's choice of
   kernels and with our own for AVX2. On a GPU: short random prompts, one of `prompt_length` (at most 1024), and a few
   tokens after each, there and on the processor, under the GPU's tolerances; and a longer prompt there at once and
   token by token, of a mixture on the processor, too. A mixture's reference is told which experts were chosen, and its
   scores judge that. Rewinds the engine. */
tw_status tw_engine_check_kernels(tw_engine *e, int64_t prompt_length, uint64_t seed, tw_verdict *verdict,
                                  tw_diag *diag);

/* Compares generations of all sequences of a batch, one of them with a prompt of `prompt_length`, with the processor's:
   each id is the most likely one there, or its logit is within twice the tolerance of the largest. */
tw_status tw_batch_check(tw_batch *b, int64_t prompt_length, uint64_t seed, tw_verdict *verdict, tw_diag *diag);

/* Positions that comparing with this file takes. */
tw_status tw_golden_context(const char *golden, int64_t *positions, tw_diag *diag);

/* Compares two engines of one model on random prompts: the same tolerances, a GPU's where one of them runs on one. For
   quantised weights against the floats they stand for. A reference on a processor is told a mixture's choices. */
tw_status tw_engine_compare(tw_engine *e, tw_engine *reference, int64_t vocab, int64_t prompts, int64_t greedy,
                            uint64_t seed, tw_verdict *verdict, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
