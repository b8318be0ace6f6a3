/* SPDX-License-Identifier: Apache-2.0 */
/* Norms: of rows (layer, RMS, Lp), of groups of channels, and of channels by statistics that are given. */
#include "graph/ops/elementwise.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

static tw_status real_alone(const tw_call *c) {
    return tw_element_kind(c->in[0]->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, c->in[0]->type);
}

/* ---- LayerNormalization, RMSNormalization. The scale is broadcast to the operand. */

tw_status tw_layer_norm_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    tw_array all = *a;
    if (axis < 0) return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis");
    for (int i = 1; i < c->n_in; i++) {
        const tw_array *s = c->in[i];
        if (s && (!tw_broadcast(a, s, &all) || memcmp(all.dims, a->dims, sizeof(int64_t) * (size_t)a->rank) != 0 ||
                  s->rank > a->rank))
            return tw_call_fail(c, TW_ERR_FORMAT, "the scale or the bias does not fit");
    }
    c->out[0] = *a;
    c->out[0].data = NULL;
    /* The statistics have the type that they were computed in. */
    c->out[1] = c->out[0];
    c->out[1].type = TW_E_f32;
    for (int i = axis; i < a->rank; i++) c->out[1].dims[i] = 1;
    c->out[2] = c->out[1];
    return real_alone(c);
}

tw_status tw_rms_norm_shape(tw_call *c) {
    const tw_status st = tw_layer_norm_shape(c);
    if (st != TW_OK) return st;
    c->out[0].type = c->in[1]->type;
    return tw_element_kind(c->out[0].type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, c->out[0].type);
}

tw_norm_of tw_norm_row(double *row, int64_t n, bool centre, double eps) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && centre; i++) mean += row[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) square += (row[i] - mean) * (row[i] - mean);
    const double inverse = 1 / sqrt(square / (double)n + eps);
    for (int64_t i = 0; i < n; i++) row[i] = (row[i] - mean) * inverse;
    return (tw_norm_of){mean, inverse};
}

static tw_status normalise(tw_call *c, bool centre) {
    const tw_array *a = c->in[0], *scale = tw_call_in(c, 1), *bias = centre ? tw_call_in(c, 2) : NULL;
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    const double eps = tw_node_real(c->node, "epsilon", 1e-5);
    const int64_t n = tw_extent(a, axis, a->rank), all = tw_array_elements(a);
    int64_t index[TW_ARRAY_RANK] = {0};
    tw_places of_scale, of_bias;
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t row = 0; n && row < all / n; row++) {
        const tw_norm_of of = tw_norm_row(&x[row * n], n, centre, eps);
        if (c->n_out > 1 && c->out[1].data)
            tw_array_set_reals(TW_E_f32, tw_call_out(c, 1), row, 1, centre ? &of.mean : &of.inverse);
        if (c->n_out > 2 && c->out[2].data) tw_array_set_reals(TW_E_f32, tw_call_out(c, 2), row, 1, &of.inverse);
    }
    if (scale) tw_places_of(scale, a, &of_scale);
    if (bias) tw_places_of(bias, a, &of_bias);
    for (int64_t i = 0; i < all; i++, tw_index_next(a, index)) {
        if (scale) x[i] *= tw_array_real(scale, tw_place(&of_scale, a, index));
        if (bias) x[i] += tw_array_real(bias, tw_place(&of_bias, a, index));
    }
    tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

tw_status tw_layer_norm_compute(tw_call *c) {
    return normalise(c, true);
}

tw_status tw_rms_norm_compute(tw_call *c) {
    return normalise(c, false);
}

/* ---- GroupNormalization, InstanceNormalization: [batch][channel][...] */

static bool is_instance(const tw_call *c) {
    return !strcmp(c->node->op, "InstanceNormalization");
}

tw_status tw_group_norm_shape(tw_call *c) {
    const tw_array *a = c->in[0];
    const int64_t channels = a->rank > 1 ? a->dims[1] : 0;
    const int64_t groups = is_instance(c) ? channels : tw_node_integer(c->node, "num_groups", 0);
    if (channels < 1 || groups < 1 || channels % groups) return tw_call_fail(c, TW_ERR_FORMAT, "has no such groups");
    for (int i = 1; i < 3; i++)
        if (c->in[i]->rank != 1 || c->in[i]->dims[0] != channels)
            return tw_call_fail(c, TW_ERR_FORMAT, "the scale or the bias has not one element a channel");
    tw_same_shape(c);
    return real_alone(c);
}

tw_status tw_group_norm_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int64_t channels = a->dims[1], behind = tw_extent(a, 2, a->rank), all = tw_array_elements(a);
    const int64_t n = channels / (is_instance(c) ? channels : tw_node_integer(c->node, "num_groups", 1)) * behind;
    const double eps = tw_node_real(c->node, "epsilon", 1e-5);
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t row = 0; n && row < all / n; row++) tw_norm_row(&x[row * n], n, true, eps);
    for (int64_t i = 0; i < all; i++) {
        const int64_t channel = i / behind % channels;
        x[i] = x[i] * tw_array_real(c->in[1], channel) + tw_array_real(c->in[2], channel);
    }
    tw_array_set_reals(a->type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

/* ---- BatchNormalization, without training */

tw_status tw_batch_norm_shape(tw_call *c) {
    if (tw_node_integer(c->node, "training_mode", 0) || c->n_out > 1)
        return tw_call_fail(c, TW_ERR_UNSUPPORTED, "training is not supported");
    const int64_t channels = c->in[0]->rank > 1 ? c->in[0]->dims[1] : 1;
    for (int i = 1; i < 5; i++)
        if (tw_array_elements(c->in[i]) != channels)
            return tw_call_fail(c, TW_ERR_FORMAT, "operand %d has not one element a channel", i);
    tw_same_shape(c);
    return real_alone(c);
}

tw_status tw_batch_norm_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int64_t channels = a->rank > 1 ? a->dims[1] : 1, behind = tw_extent(a, 2, a->rank),
                  all = tw_array_elements(a);
    const double eps = tw_node_real(c->node, "epsilon", 1e-5);
    for (int64_t i = 0; i < all; i++) {
        const int64_t channel = a->rank > 1 ? i / behind % channels : 0;
        const double x = (tw_array_real(a, i) - tw_array_real(c->in[3], channel)) /
                             sqrt(tw_array_real(c->in[4], channel) + eps) * tw_array_real(c->in[1], channel) +
                         tw_array_real(c->in[2], channel);
        tw_array_set_reals(a->type, tw_call_out(c, 0), i, 1, &x);
    }
    return TW_OK;
}

/* ---- LpNormalization */

tw_status tw_lp_norm_shape(tw_call *c) {
    const int64_t p = tw_node_integer(c->node, "p", 2);
    if (tw_axis(tw_node_integer(c->node, "axis", -1), c->in[0]->rank) < 0 || (p != 1 && p != 2))
        return tw_call_fail(c, TW_ERR_FORMAT, "has no such axis or norm");
    tw_same_shape(c);
    return real_alone(c);
}

tw_status tw_lp_norm_compute(tw_call *c) {
    const tw_array *a = c->in[0];
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -1), a->rank);
    const bool squares = tw_node_integer(c->node, "p", 2) == 2;
    const int64_t n = a->dims[axis], behind = tw_extent(a, axis + 1, a->rank), all = tw_array_elements(a);
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t line = 0; n && line < all / n; line++) {
        double *r = &x[line / behind * behind * n + line % behind], sum = 0;
        for (int64_t i = 0; i < n; i++) sum += squares ? r[i * behind] * r[i * behind] : fabs(r[i * behind]);
        if (squares) sum = sqrt(sum);
        for (int64_t i = 0; i < n; i++) r[i * behind] = sum == 0 ? 0 : r[i * behind] / sum;
    }
    tw_array_set_reals(a->type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}
