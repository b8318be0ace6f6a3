/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and prints words of a problem, for example "m=512", "type=f16", "alpha=0.5", "activation=silu". */
#include "base/diag.h"
#include "kernels/gemm/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char tw_gemm_problem_words[] =
    "m n k; type=f32|f64|f16|bf16|tf32|s8|e4m3|tf32x3; ta tb (1: stored transposed); lda ldb ldc; batch, sa sb sc "
    "(strides);\n"
    "sets=S: the batch has S sets, set_a set_b set_c from one to the next;\n"
    "alpha beta; out=TYPE of C; bias=1 mul=1 residual=1 gated=1 squares=1 means=1 scaled=1 scale_rows=1 "
    "scale_columns=1; "
    "activation=gelu|gelu_erf|silu;\n"
    "sums=P eps=E: rows of A are divided by the roots of the means of P sums of squares; centred=1: by those of\n"
    "variances; norm_residual=1: the residual's rows have a layer norm, and not A's;\n"
    "addends=P: C is P matrices of f32 that add up to the product, each of a part of k (kg=P);\n"
    "pointers=1: matrices of a batch lie anywhere, and buffers hold their addresses;\n"
    "groups=E: rows of A in E groups, each with a B of its own; masked=1: each has a count in the place of an end;\n"
    "gather=1: rows of A, of which there are rows_a, by number; scatter=1: rows of C by number, with a factor each;\n"
    "rows_a=R: A has R rows in memory, of which the product is of the first m;\n"
    "weights=1: nothing writes B while launches may overlap;\n"
    "tape=WxBxR: B's columns lie on a tape of the GPU's machine: W runs of R pieces, B pieces of each at a time;\n"
    "tape=WxBxRa: and chunks of so many pieces lie apart;\n"
    "narrow=i8|i4: B has packed integers; scales=G: elements along k of it that share a scale; scale_sums=1: scales\n"
    "multiply their sums;\n"
    "promote=1: tensor cores add up at most 128 e4m3 along k, and these sums are added in f32;\n"
    "scale_blocks=1: and are multiplied by scales of rows of A, and of 128 columns of B, before";

static bool number(const char *value, double least, double most, double *x) {
    char *end;
    *x = strtod(value, &end);
    return end != value && !*end && *x >= least && *x <= most;
}

static bool out_type(const char *value, tw_type *t) {
    for (int i = TW_T_none + 1; i < TW_T_COUNT; i++)
        if (!strcmp(tw_type_name((tw_type)i), value)) {
            *t = (tw_type)i;
            return true;
        }
    return false;
}

static bool narrow_type(const char *value, tw_gemm_narrow *t) {
    for (int i = 0; i < TW_GEMM_NARROWS; i++)
        if (!strcmp(tw_gemm_narrow_names[i], value)) {
            *t = (tw_gemm_narrow)i;
            return true;
        }
    return false;
}

static bool tape_of(const char *value, tw_gemm_tape *t) {
    char apart = 0, more;
    const int n = sscanf(value, "%6dx%6dx%6d%c%c", &t->warps, &t->blocks, &t->run, &apart, &more);
    t->apart = n == 4;
    return (n == 3 || (n == 4 && apart == 'a')) && t->warps > 0;
}

bool tw_gemm_problem_word(tw_gemm_problem *p, const char *word, tw_status *status, tw_diag *diag) {
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : "";
    const size_t n = equals ? (size_t)(equals - word) : 0;
    const struct {
        const char *name;
        int64_t *whole;
        bool *flag;
        double *real;
    } numbers[] = {
        {"m", &p->m, NULL, NULL},
        {"n", &p->n, NULL, NULL},
        {"k", &p->k, NULL, NULL},
        {"batch", &p->batch, NULL, NULL},
        {"lda", &p->lda, NULL, NULL},
        {"ldb", &p->ldb, NULL, NULL},
        {"ldc", &p->ldc, NULL, NULL},
        {"sa", &p->stride_a, NULL, NULL},
        {"sb", &p->stride_b, NULL, NULL},
        {"sc", &p->stride_c, NULL, NULL},
        {"sets", &p->sets, NULL, NULL},
        {"set_a", &p->set_a, NULL, NULL},
        {"set_b", &p->set_b, NULL, NULL},
        {"set_c", &p->set_c, NULL, NULL},
        {"ta", NULL, &p->trans_a, NULL},
        {"tb", NULL, &p->trans_b, NULL},
        {"alpha", NULL, NULL, &p->alpha},
        {"beta", NULL, NULL, &p->beta},
        {"pointers", NULL, &p->pointers, NULL},
        {"sums", &p->sums, NULL, NULL},
        {"centred", NULL, &p->centred, NULL},
        {"norm_residual", NULL, &p->norm_residual, NULL},
        {"eps", NULL, NULL, &p->eps},
        {"addends", &p->addends, NULL, NULL},
        {"groups", &p->groups, NULL, NULL},
        {"scales", &p->scales, NULL, NULL},
        {"scale_sums", NULL, &p->scale_sums, NULL},
        {"masked", NULL, &p->masked, NULL},
        {"gather", NULL, &p->gather, NULL},
        {"rows_a", &p->rows_a, NULL, NULL},
        {"scatter", NULL, &p->scatter, NULL},
        {"weights", NULL, &p->weights, NULL},
        {"promote", NULL, &p->promote, NULL},
        {"scale_blocks", NULL, &p->scale_blocks, NULL},
        {"bias", NULL, &p->epilogue.bias, NULL},
        {"mul", NULL, &p->epilogue.mul, NULL},
        {"residual", NULL, &p->epilogue.residual, NULL},
        {"gated", NULL, &p->epilogue.gated, NULL},
        {"squares", NULL, &p->epilogue.squares, NULL},
        {"means", NULL, &p->epilogue.means, NULL},
        {"scaled", NULL, &p->epilogue.scaled, NULL},
        {"scale_rows", NULL, &p->epilogue.scale_rows, NULL},
        {"scale_columns", NULL, &p->epilogue.scale_columns, NULL},
    };
    bool known = false, good = false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strlen(numbers[i].name) != n || strncmp(numbers[i].name, word, n)) continue;
        double x;
        known = true;
        if (numbers[i].whole) {
            good = number(value, -1, 1e15, &x) && x == (double)(int64_t)x;
            if (good) *numbers[i].whole = (int64_t)x;
        } else if (numbers[i].flag) {
            good = number(value, 0, 1, &x) && (x == 0 || x == 1);
            if (good) *numbers[i].flag = x == 1;
        } else {
            good = number(value, -1e30, 1e30, &x);
            if (good) *numbers[i].real = x;
        }
    }
    if (n == 4 && !strncmp(word, "type", 4)) known = true, good = tw_gemm_type_from_name(value, &p->type);
    if (n == 3 && !strncmp(word, "out", 3)) known = true, good = out_type(value, &p->out);
    if (n == 6 && !strncmp(word, "narrow", 6)) known = true, good = narrow_type(value, &p->narrow);
    if (n == 4 && !strncmp(word, "tape", 4)) known = true, good = tape_of(value, &p->tape);
    if (n == 10 && !strncmp(word, "activation", 10))
        known = true, good = tw_gemm_activation_from_name(value, &p->epilogue.activation);
    *status = TW_OK;
    if (known && good) return true;
    if (known) *status = tw_fail(diag, TW_ERR_USAGE, "\"%s\": no such value", word);
    return false;
}

void tw_gemm_problem_print(const tw_gemm_problem *p, char *out, size_t size) {
    const struct {
        const char *name;
        int64_t value, usual;
    } numbers[] = {
        {"ta", p->trans_a, 0},
        {"tb", p->trans_b, 0},
        {"lda", p->lda, p->trans_a ? p->m : p->k},
        {"ldb", p->ldb, p->trans_b ? p->k : p->n},
        {"ldc", p->ldc, tw_gemm_columns(p)},
        {"batch", p->batch, 1},
        {"sa", p->stride_a, p->lda * (p->trans_a ? p->k : p->m)},
        {"sb", p->stride_b, p->ldb * (p->trans_b ? p->n : p->k)},
        {"sc", p->stride_c, p->ldc * p->m},
        {"sets", p->sets, 1},
        {"set_a", p->set_a, tw_gemm_next_set(p, p->stride_a)},
        {"set_b", p->set_b, tw_gemm_next_set(p, p->stride_b)},
        {"set_c", p->set_c, tw_gemm_next_set(p, p->stride_c)},
        {"pointers", p->pointers, 0},
        {"sums", p->sums, 0},
        {"centred", p->centred, 0},
        {"norm_residual", p->norm_residual, 0},
        {"addends", p->addends, 0},
        {"groups", p->groups, 0},
        {"masked", p->masked, 0},
        {"gather", p->gather, 0},
        {"rows_a", p->rows_a, p->m},
        {"scatter", p->scatter, 0},
        {"weights", p->weights, 0},
        {"promote", p->promote && !p->scale_blocks, 0},
        {"scale_blocks", p->scale_blocks, 0},
        {"scales", p->scales, 0},
        {"scale_sums", p->scale_sums, 0},
        {"bias", p->epilogue.bias, 0},
        {"mul", p->epilogue.mul, 0},
        {"residual", p->epilogue.residual, 0},
        {"gated", p->epilogue.gated, 0},
        {"squares", p->epilogue.squares, 0},
        {"means", p->epilogue.means, 0},
        {"scaled", p->epilogue.scaled, 0},
        {"scale_rows", p->epilogue.scale_rows, 0},
        {"scale_columns", p->epilogue.scale_columns, 0},
    };
    size_t n = (size_t)snprintf(out, size, "type=%s m=%lld n=%lld k=%lld", tw_gemm_types[p->type].name, (long long)p->m,
                                (long long)p->n, (long long)p->k);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && n < size; i++)
        if (numbers[i].value && numbers[i].value != numbers[i].usual)
            n += (size_t)snprintf(out + n, size - n, " %s=%lld", numbers[i].name, (long long)numbers[i].value);
    if (n < size && p->out != TW_T_none && p->out != tw_gemm_types[p->type].out)
        n += (size_t)snprintf(out + n, size - n, " out=%s", tw_type_name(p->out));
    if (n < size && p->narrow) n += (size_t)snprintf(out + n, size - n, " narrow=%s", tw_gemm_narrow_names[p->narrow]);
    if (n < size && p->tape.warps)
        n += (size_t)snprintf(out + n, size - n, " tape=%dx%dx%d%s", p->tape.warps, p->tape.blocks, p->tape.run,
                              p->tape.apart ? "a" : "");
    if (n < size && p->alpha != 1) n += (size_t)snprintf(out + n, size - n, " alpha=%.17g", p->alpha);
    if (n < size && p->eps != 0) n += (size_t)snprintf(out + n, size - n, " eps=%.9g", p->eps);
    if (n < size && p->beta != 0) n += (size_t)snprintf(out + n, size - n, " beta=%.17g", p->beta);
    if (n < size && p->epilogue.activation)
        snprintf(out + n, size - n, " activation=%s", tw_gemm_activation_name(p->epilogue.activation));
}
