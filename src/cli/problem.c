/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/problem.h"

#include "kernels/gemm/space.h"

json_t *cli_problem_json(const tw_gemm_problem *p) {
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I}", "type", tw_gemm_types[p->type].name, "out",
                  tw_type_name(p->out), "m", (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k, "batch",
                  (json_int_t)p->batch, "ta", p->trans_a, "tb", p->trans_b, "lda", (json_int_t)p->lda, "ldb",
                  (json_int_t)p->ldb, "ldc", (json_int_t)p->ldc);
    json_object_set_new(o, "alpha", json_real(p->alpha));
    json_object_set_new(o, "beta", json_real(p->beta));
    json_object_set_new(o, "bias", json_boolean(p->epilogue.bias));
    json_object_set_new(o, "mul", json_boolean(p->epilogue.mul));
    json_object_set_new(o, "residual", json_boolean(p->epilogue.residual));
    json_object_set_new(o, "gated", json_boolean(p->epilogue.gated));
    json_object_set_new(o, "squares", json_boolean(p->epilogue.squares));
    json_object_set_new(o, "scale_rows", json_boolean(p->epilogue.scale_rows));
    json_object_set_new(o, "scale_columns", json_boolean(p->epilogue.scale_columns));
    json_object_set_new(o, "scale_blocks", json_boolean(p->scale_blocks));
    json_object_set_new(o, "promote", json_boolean(p->promote));
    if (p->sets > 1) json_object_set_new(o, "sets", json_integer((json_int_t)p->sets));
    if (p->pointers) json_object_set_new(o, "pointers", json_true());
    if (p->groups) json_object_set_new(o, "groups", json_integer((json_int_t)p->groups));
    if (p->masked) json_object_set_new(o, "masked", json_true());
    if (p->gather) json_object_set_new(o, "gather", json_true());
    if (p->gather) json_object_set_new(o, "rows_a", json_integer((json_int_t)p->rows_a));
    if (p->epilogue.scaled) json_object_set_new(o, "scaled", json_true());
    if (p->sums) json_object_set_new(o, "sums", json_integer((json_int_t)p->sums));
    if (p->sums) json_object_set_new(o, "eps", json_real(p->eps));
    if (p->addends) json_object_set_new(o, "addends", json_integer((json_int_t)p->addends));
    if (p->scatter) json_object_set_new(o, "scatter", json_true());
    if (p->weights) json_object_set_new(o, "weights", json_true());
    if (p->narrow) json_object_set_new(o, "narrow", json_string(tw_gemm_narrow_names[p->narrow]));
    if (p->scales) json_object_set_new(o, "scales", json_integer((json_int_t)p->scales));
    if (p->scale_sums) json_object_set_new(o, "scale_sums", json_true());
    json_object_set_new(o, "activation", json_string(tw_gemm_activation_name(p->epilogue.activation)));
    return o;
}

json_t *cli_config_json(const tw_gemm_config *c) {
    json_t *o = json_object();
    for (int i = 0; i < tw_gemm_space.n; i++)
        json_object_set_new(o, tw_gemm_space.params[i].name, json_integer(tw_space_get(&tw_gemm_space, c, i)));
    return o;
}
