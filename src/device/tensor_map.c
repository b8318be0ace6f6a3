/* SPDX-License-Identifier: Apache-2.0 */
#include "device/tensor_map.h"

int tw_tensor_element_bytes(tw_tensor_element e) {
    static const int bytes[TW_TENSOR_ELEMENTS] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[e];
}

int tw_tensor_map_step(const tw_tensor_map *m, int dimension) {
    return m->step[dimension] ? m->step[dimension] : 1;
}

int tw_tensor_map_count(const tw_tensor_map *m, int dimension) {
    const int step = tw_tensor_map_step(m, dimension);
    return (m->box[dimension] + step - 1) / step;
}

int tw_tensor_map_rows(const tw_tensor_map *m) {
    int rows = 1;
    if (m->im2col) return m->pixels;
    for (int i = 1; i < m->dims; i++) rows *= tw_tensor_map_count(m, i);
    return rows;
}

int tw_tensor_map_row_bytes(const tw_tensor_map *m) {
    return (m->im2col ? m->channels : m->box[0]) * tw_tensor_element_bytes(m->element);
}

static bool within(int64_t x, int64_t least, int64_t most) {
    return x >= least && x <= most;
}

/* `lower` and `upper` have 16, 8 or 5 bits with one, two or three dimensions of space. A bounding box has a pixel. */
static bool corners_fit(const tw_tensor_map *m) {
    const int bits = m->dims == 3 ? 16 : m->dims == 4 ? 8 : 5, most = (1 << (bits - 1)) - 1;
    for (int i = 0; i < m->dims - 2; i++) {
        if (!within(m->lower[i], -most - 1, most) || !within(m->upper[i], -most - 1, most)) return false;
        if (m->extent[i + 1] - 1 + m->upper[i] < m->lower[i]) return false;
    }
    return true;
}

bool tw_tensor_map_valid(const tw_tensor_map *m) {
    if (!m || m->address % 16 || (unsigned)m->element >= TW_TENSOR_ELEMENTS) return false;
    if (!within(m->dims, m->im2col ? 3 : 1, TW_TENSOR_DIMS) || !within(m->step[0], 0, 1)) return false;
    for (int i = 0; i < m->dims; i++) {
        if (!within(m->extent[i], 1, UINT32_MAX) || !within(m->step[i], 0, 8)) return false;
        if (i && (m->stride[i] % 16 || !within(m->stride[i], 0, ((int64_t)1 << 40) - 1))) return false;
        if (!m->im2col && !within(m->box[i], 1, 256)) return false;
    }
    if (m->im2col && (!within(m->channels, 1, 256) || !within(m->pixels, 1, 1024) || !corners_fit(m))) return false;
    const int row = tw_tensor_map_row_bytes(m);
    const bool known = m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128;
    return m->swizzle ? known && row == m->swizzle : row % 16 == 0;
}
