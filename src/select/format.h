/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of an artefact, which docs/select.md describes, and the arithmetic that its writer, its check and
   decisions share. Numbers are little-endian. Places are offsets in bytes from the file's beginning. */
#ifndef TW_SELECT_FORMAT_H
#define TW_SELECT_FORMAT_H

#include "base/dtype.h"
#include "select/artefact.h"
#include "select/spread.h"

#include <string.h>

enum {
    SELECT_VERSION = 5,
    SELECT_WAVES = 4,                            /* Index of the first term of waves. */
    SELECT_TAIL = 6,                             /* Index of the first term of last tiles. */
    SELECT_FLOW = SELECT_TAIL + TW_FILL_AXES,    /* Index of the first term of all waves' last tiles. */
    SELECT_MEMORY = SELECT_FLOW + TW_FILL_AXES,  /* Index of the first term of operands that tiles share. */
    SELECT_TERMS = SELECT_MEMORY + TW_FILL_AXES, /* Coefficients of a macro choice in a direct artefact. */
    SELECT_ORDER = 0x01020304,
    SELECT_LINE = 64,       /* Alignment of sections and columns in bytes: a cache line. */
    SELECT_NO_ANCHOR = 255, /* In a row of anchors: this L is no anchor. */
    SELECT_RULE = 3,        /* Bits of properties in a kind. The rule's number is above them. */
    SELECT_NARROW = 3,      /* Words of a record whose coefficients have 20 bits. */
    SELECT_WIDE = 5,        /* Words of a record whose coefficients are floats. */
    SELECT_HOT = 128,       /* The most cache lines of columns that are prefetched. */
    SELECT_EXACT_BITS = 24, /* Whole numbers up to 2^24 are exact in a float. No axis is larger. */
    SELECT_EXACT = 1 << SELECT_EXACT_BITS,
    SELECT_PROBES = 32, /* The most buckets that a lookup visits. */
    /* Bounds hold from 1 / SELECT_BEYOND of the least anchor to SELECT_BEYOND times the largest. */
    SELECT_BEYOND = 4,
    SELECT_NO_RATIO = 0x7f80, /* Infinity, as bf16: there is no bound. */
    SELECT_INDEX = 1 << 20    /* An exact problem's number in a bucket is less. */
};
#define SELECT_MAGIC "TWSELECT"

/* A column: a number for each macro choice. */
typedef struct select_column {
    uint32_t at;   /* Place of the numbers, 16 bits each. 0: all macro choices have the number `same`. */
    uint32_t same; /* The number of all macro choices. 0 if `at` is not 0. */
} select_column;

/* Indices of select_header.columns. */
enum {
    COLUMN_KIND,                                   /* Properties in the low bits, the rule's number above. */
    COLUMN_SLOTS,                                  /* Number of slots, from 1. */
    COLUMN_TIMES,                                  /* Factor of G, from 1. */
    COLUMN_FITS,                                   /* Number of fits. */
    COLUMN_GRID,                                   /* Tiles of G, a column for each axis. 0: the axis does not count. */
    COLUMN_ROUNDS = COLUMN_GRID + TW_SELECT_AXES,  /* Tiles of L, a column for each axis. 0: the axis does not count. */
    COLUMN_BOUND = COLUMN_ROUNDS + TW_SELECT_AXES, /* The lower bound's coefficients of wL, w, L and 1, as bf16. */
    COLUMN_RATIO = COLUMN_BOUND + 4,               /* The upper bound divided by the lower one, as bf16. */
    COLUMN_STEP,                                   /* The unit of corrections, as bf16. */
    COLUMNS,
    /* A direct artefact has no lower bounds of times. These columns are in their place. */
    COLUMN_LOW = COLUMN_BOUND, /* Lower bound of the corrections by fill, as bf16. */
    COLUMN_HIGH                /* Upper bound of the corrections by fill, as bf16. */
};

/* Indices of select_header.texts. */
enum { TEXT_KERNEL, TEXT_UNIT, TEXT_DEVICE, TEXT_ALIKE, TEXT_ARCHITECTURE, TEXT_ABOUT, TEXTS };

typedef struct select_header {
    char magic[8];
    uint32_t order;       /* SELECT_ORDER in the writer's byte order. */
    uint32_t version;     /* SELECT_VERSION */
    uint64_t size;        /* Size of the file. */
    uint64_t checksum[2]; /* tw_hash of the file with zeros in this field. */
    uint32_t axes, macros;
    uint32_t records;      /* Number of records, one for each fit. */
    uint32_t record_words; /* SELECT_NARROW or SELECT_WIDE. */
    uint32_t rules;        /* Number of legality rules. */
    uint32_t exact;        /* Number of exact problems. */
    uint32_t buckets;      /* A power of two, at least 2 * exact. 0: there are no exact problems. */
    uint32_t macro, micro; /* The default. */
    float least, most;     /* The values of L between which the bounds hold. */
    uint32_t first_at;     /* Place of the number of each macro choice's first record, 32 bits each. 0: all have as many
                              records. */
    uint32_t records_at;   /* Records, by macro choice and wave. */
    uint32_t macros_at;    /* A select_macro for each macro choice. */
    uint32_t rules_at;     /* A select_rule for each rule. */
    uint32_t samples_at;   /* Number of samples of each record, in 16 bits. */
    uint32_t exact_at;     /* A select_exact for each exact problem. */
    uint32_t buckets_at;   /* 0, or a number from 1 in the low 20 bits, below the hash's upper 12. 32 bits each. */
    uint32_t hot_at;       /* Where columns begin, the first of them. */
    uint32_t hot_end;      /* Where columns end. */
    uint32_t texts[TEXTS]; /* Where the texts are. */
    uint32_t names[TW_SELECT_AXES]; /* Where the axes' names are. 0 beyond the last. */
    uint16_t shrinks;               /* Bit a: blocks share axis a equally. */
    uint8_t spread;                 /* Index of the spread axis, plus 1. 0: there is none. */
    uint8_t groups;                 /* Index of the axis that counts the groups, plus 1. 0: there is none. */
    /* A row for each node of the lattice: 8 bits with a sign for each macro choice, lattice_pitch bytes a row. 0: there
       is no lattice. */
    uint32_t lattice_at, lattice_pitch;
    tw_lattice lattice;
    /* Rows of SELECT_TERMS floats of a direct artefact, terms_pitch floats a row: coefficients of xL, x, L, 1, WL, W,
       and for each tiled axis of eL (WeL if it shrinks), then of eLx / r, then of Lx / r, for each macro choice. 0: the
       artefact is not direct. */
    uint32_t terms_at, terms_pitch;
    uint32_t fills_at;            /* A select_fill for each macro choice. 0: there are none. */
    uint32_t tiled[TW_FILL_AXES]; /* Index of each tiled axis, plus 1. 0: there is none. */
    select_column columns[COLUMNS];
} select_header;
_Static_assert(sizeof(select_header) == 448, "the file's layout");

/* The data of a macro choice that answers need and predictions do not. */
typedef struct select_macro {
    uint32_t config;       /* Place of the configuration with micro choice 0. */
    uint32_t anchors;      /* Place of its L, 32 bits each and ascending. The rows follow, a byte for each L. */
    uint16_t pitch;        /* Bytes from a micro choice's configuration to the next. */
    uint16_t rows;         /* Number of rows. */
    uint16_t anchor_count; /* Number of L. */
    uint8_t micros;        /* Number of micro choices. */
    uint8_t zero;
} select_macro;
_Static_assert(sizeof(select_macro) == 16, "the file's layout");

/* The corrections by fill of one macro choice (select/fill.h). They take one cache line. */
typedef struct select_fill {
    int8_t cell[TW_FILL_CELLS]; /* The macro choice's row of cells, in units of `step`. */
    uint16_t step;              /* Unit of the cells, as bf16. */
    uint16_t zero[7];
} select_fill;
_Static_assert(sizeof(select_fill) == SELECT_LINE, "the file's layout");

typedef struct select_rule {
    uint32_t multiple[TW_SELECT_AXES], least[TW_SELECT_AXES], most[TW_SELECT_AXES];
    uint32_t tile[TW_SELECT_AXES], parts[TW_SELECT_AXES]; /* ceil(problem / tile) must be a multiple of `parts`. */
} select_rule;

/* Tells whether a problem keeps a rule: a macro choice with this rule can compute it. `problem` is what
   select_rule_numbers makes of it. */
static inline bool select_keeps(const select_rule *r, const uint32_t *problem, int axes) {
    for (int a = 0; a < axes; a++) {
        const uint32_t d = problem[a];
        if (d < r->least[a] || d > r->most[a] || (r->multiple[a] > 1 && d % r->multiple[a])) return false;
        if (r->parts[a] > 1 && ((d - 1) / r->tile[a] + 1) % r->parts[a]) return false;
    }
    return true;
}

typedef struct select_exact {
    uint32_t problem[TW_SELECT_AXES]; /* Values of the axes. 0 beyond the last axis. */
    float time, second_time;
    uint16_t macro, second_macro; /* `second_macro` with `second_micro` is the first choice if there is no second. */
    uint8_t micro, second_micro;
    uint16_t zero;
} select_exact;
_Static_assert(sizeof(select_exact) == 40, "the file's layout");

/* The content of a record. The time is (c[0] L + c[1]) x + c[2] L + c[3], with x = G / slots - f, where f is the number
   of fits before this one. Coefficients of G nearly cancel in late waves; those of x hardly do, so few bits are
   enough. */
typedef struct select_record {
    float c[4];
    uint8_t error; /* Relative half width of the time's interval: 4 bits of exponent above 4 of fraction. */
    uint8_t row;   /* Number of the row of anchors. */
} select_record;

/* Reads a record of `words` words. In a narrow one the upper 20 bits of each word are those of c[0], c[1] and c[2]. The
   lower 12 bits of the words, taken together, are the upper 20 of c[3], the error and the row. */
static inline select_record select_unpack(const uint32_t *w, uint32_t words) {
    if (words == SELECT_WIDE)
        return (select_record){{tw_bits_f32(w[0]), tw_bits_f32(w[1]), tw_bits_f32(w[2]), tw_bits_f32(w[3])},
                               (uint8_t)w[4],
                               (uint8_t)(w[4] >> 8)};
    const uint32_t upper = ~0xfffu, fourth = w[0] << 20 | (w[1] & 0xff0) << 8;
    return (select_record){
        {tw_bits_f32(w[0] & upper), tw_bits_f32(w[1] & upper), tw_bits_f32(w[2] & upper), tw_bits_f32(fourth)},
        (uint8_t)((w[1] & 0xf) << 4 | (w[2] >> 8 & 0xf)),
        (uint8_t)w[2]};
}

static inline void select_pack(uint32_t *w, uint32_t words, const select_record *r) {
    uint32_t bits[4];
    for (int i = 0; i < 4; i++) bits[i] = tw_f32_bits(r->c[i]);
    if (words == SELECT_WIDE) {
        memcpy(w, bits, sizeof bits);
        w[4] = r->error | (uint32_t)r->row << 8;
        return;
    }
    w[0] = bits[0] | bits[3] >> 20;
    w[1] = bits[1] | (bits[3] >> 8 & 0xff0) | r->error >> 4;
    w[2] = bits[2] | (uint32_t)(r->error & 0xf) << 8 | r->row;
}

static inline double select_error(uint8_t code) {
    return code ? (double)tw_bits_f32(((uint32_t)(code >> 4) + 115) << 23 | (uint32_t)(code & 0xf) << 19) : 0;
}

/* Predicts the time at x (select_record). */
static inline double select_time(const select_record *r, double x, double rounds) {
    return ((double)r->c[0] * rounds + (double)r->c[1]) * x + ((double)r->c[2] * rounds + (double)r->c[3]);
}

/* Returns ceil(problem / tile). The result is exact for whole numbers whose problem is at most 2^24: a quotient that is
   not whole is at least 1 / tile above the whole number below it, and rounding to 24 bits moves it by less. */
static inline float select_ceil(float problem, float tile) {
    const float q = problem / tile, whole = (float)(int32_t)q;
    return whole + (float)(whole < q);
}

/* Returns the tiles of rows that are spread over `used` groups. It equals tw_spread_tiles where its numbers are exact.
 */
static inline float select_spread(float rows, float used, float tile) {
    const float tiles = select_ceil(2 * rows + used * tile, 2 * tile);
    return tiles > used ? tiles : used;
}

/* Makes of a problem the numbers that rules are about. Axes are counted from 1. */
static inline void select_rule_numbers(int spread, int groups, uint32_t *problem) {
    if (spread) problem[spread - 1] = (uint32_t)tw_spread_share(problem[spread - 1], problem[groups - 1]);
}

/* Corrections of macro choice i are between 1 - SELECT_CORRECTION and 1 + 128 SELECT_STEP_MOST. */
#define SELECT_TERM_MOST  1e20f
#define SELECT_TIME_MOST  1e30f /* Times by terms above it are no predictions. */
#define SELECT_ROUNDING   4e-6f /* Relative room for sums and products of a few floats. */
#define SELECT_CORRECTION 0.95f
#define SELECT_STEP_MOST  0.08f
#define SELECT_FILL_MOST  3.0f  /* The most that corrections of fills may be, up or down. */
#define SELECT_FILL_ROOM  0.01f /* Room of their bounds in bf16, for rounding there and in floats. */

/* Finds numbers that a macro choice's corrections of fills are between. */
static inline void select_fill_range(const select_fill *f, float *low, float *high) {
    int least = 0, most = 0;
    for (int i = 0; i < TW_FILL_CELLS; i += TW_FILL_KINDS) {
        int down = f->cell[i], up = down;
        for (int k = 1; k < TW_FILL_KINDS; k++) {
            down += f->cell[i + k] < 0 ? f->cell[i + k] : 0;
            up += f->cell[i + k] > 0 ? f->cell[i + k] : 0;
        }
        least = i && least < down ? least : down;
        most = i && most > up ? most : up;
    }
    *low = tw_bf16_to_f32(f->step) * (float)least;
    *high = tw_bf16_to_f32(f->step) * (float)most;
}

/* Returns what times are multiplied by: `sum` is a weighted sum of corrections, `step` their unit, as bf16. */
static inline float select_correction(uint16_t step, int16_t sum) {
    return 1 + tw_bf16_to_f32(step) * ((float)sum * (1.0f / TW_LATTICE_UNITS));
}

/* Returns the part of the tiles that a problem uses. */
static inline float select_used(float problem, float tile) {
    return problem / (tile * select_ceil(problem, tile));
}
#endif
