/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of an artefact, and what is computed from it alike by the writer, the check and the decision.
   docs/select.md describes the file. Numbers are little-endian; offsets are bytes from the file's beginning. */
#ifndef TW_SELECT_FORMAT_H
#define TW_SELECT_FORMAT_H

#include "base/dtype.h"
#include "select/artefact.h"

#include <string.h>

enum {
    SELECT_VERSION = 2,
    SELECT_ORDER = 0x01020304,
    SELECT_LINE = 64,       /* What sections and columns are aligned to: a cache line. */
    SELECT_NO_ANCHOR = 255, /* In a row: the L of this column is no anchor. */
    SELECT_RULE = 3,        /* Bits of a kind below its rule: properties. */
    SELECT_NARROW = 3,      /* Words of a record whose coefficients have 20 bits. */
    SELECT_WIDE = 5,        /* Words of a record whose coefficients are floats. */
    SELECT_HOT = 64,        /* The most lines of columns that are asked for ahead. */
    SELECT_EXACT_BITS = 24, /* Whole numbers up to 2^24 are exact in a float. No axis is larger. */
    SELECT_EXACT = 1 << SELECT_EXACT_BITS,
    SELECT_PROBES = 32,    /* The most buckets that are looked into. */
    SELECT_BEYOND = 4,     /* Bounds hold for L so many times beyond the anchors. */
    SELECT_INDEX = 1 << 20 /* Exclusive limit of an exact problem's number in a bucket. */
};
#define SELECT_MAGIC "TWSELECT"

/* A number for each macro choice. */
typedef struct select_column {
    uint32_t at;   /* Where 16 bits for each begin. 0: all have the same. */
    uint32_t same; /* The number that all have. */
} select_column;

/* Places of columns in the header. */
enum {
    COLUMN_KIND,                                   /* Properties, and above them the number of a rule. */
    COLUMN_SLOTS,                                  /* From 1. */
    COLUMN_TIMES,                                  /* From 1. */
    COLUMN_FITS,                                   /* Number of fits. */
    COLUMN_GRID,                                   /* Tiles of G, a column an axis. 0: the axis does not count. */
    COLUMN_ROUNDS = COLUMN_GRID + TW_SELECT_AXES,  /* Tiles of L. */
    COLUMN_BOUND = COLUMN_ROUNDS + TW_SELECT_AXES, /* Coefficients of wL, w, L, 1 of the lower bound, as bf16. */
    COLUMN_RATIO = COLUMN_BOUND + 4,               /* The upper bound divided by the lower one, as bf16. */
    COLUMN_STEP,                                   /* What corrections are multiples of, as bf16. */
    COLUMNS
};

/* Places of texts in the header. */
enum { TEXT_KERNEL, TEXT_UNIT, TEXT_DEVICE, TEXT_ALIKE, TEXT_ARCHITECTURE, TEXT_ABOUT, TEXTS };

typedef struct select_header {
    char magic[8];
    uint32_t order;       /* SELECT_ORDER, as the machine that wrote it has it. */
    uint32_t version;     /* SELECT_VERSION */
    uint64_t size;        /* Size of the file. */
    uint64_t checksum[2]; /* tw_hash of the file, with zeros here. */
    uint32_t axes, macros;
    uint32_t records;      /* Number of records, one for each fit. */
    uint32_t record_words; /* SELECT_NARROW or SELECT_WIDE. */
    uint32_t rules;        /* Number of legality rules. */
    uint32_t exact;        /* Number of exact problems. */
    uint32_t buckets;      /* A power of two, at least 2 * exact. 0: there are no exact problems. */
    uint32_t macro, micro; /* The default. */
    float least, most;     /* The values of L between which the bounds hold. */
    uint32_t first_at;     /* Where each macro choice's first record's number is, in 32 bits. 0: all have as many. */
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
    uint32_t shrinks;               /* Bit a: blocks share axis a equally. */
    /* A row for each node of the lattice: 8 bits with a sign for each macro choice, lattice_pitch bytes a row. 0: there
       is no lattice. */
    uint32_t lattice_at, lattice_pitch;
    tw_lattice lattice;
    select_column columns[COLUMNS];
} select_header;
_Static_assert(sizeof(select_header) == 432, "the file's layout");

/* What is needed of the macro choice that is taken. */
typedef struct select_macro {
    uint32_t config;  /* Where the configuration with micro choice 0 is. */
    uint32_t anchors; /* Where its L are, 32 bits each and ascending, and behind them its rows, a byte for each L. */
    uint16_t pitch;   /* Bytes from a configuration to the next. */
    uint16_t rows;    /* Number of rows. */
    uint16_t anchor_count; /* Number of L. */
    uint8_t micros;        /* Number of micro choices. */
    uint8_t zero;
} select_macro;
_Static_assert(sizeof(select_macro) == 16, "the file's layout");

typedef struct select_rule {
    uint32_t multiple[TW_SELECT_AXES], least[TW_SELECT_AXES], most[TW_SELECT_AXES];
    uint32_t tile[TW_SELECT_AXES], parts[TW_SELECT_AXES]; /* ceil(problem / tile) is a multiple of parts. */
} select_rule;

typedef struct select_exact {
    uint32_t problem[TW_SELECT_AXES]; /* 0 where there is no axis. */
    float time, second_time;
    uint16_t macro, second_macro; /* No second: as the first, with the same micro choice. */
    uint8_t micro, second_micro;
    uint16_t zero;
} select_exact;
_Static_assert(sizeof(select_exact) == 40, "the file's layout");

/* What a record holds. Time in the fit's waves is (c[0] L + c[1]) x + c[2] L + c[3], with x = G / slots - f and f the
   number of fits before this one. These coefficients hardly cancel, as those of G do in late waves, so few bits do. */
typedef struct select_record {
    float c[4];
    uint8_t error; /* A relative half width: 4 bits of exponent above 4 of fraction. */
    uint8_t row;   /* Number of its row of anchors. */
} select_record;

/* Reads a record. A narrow one has the upper 20 bits of its first three coefficients in the upper bits of a word each;
   the lower 12 bits of the words are, one behind the other, the fourth's, the error and the row. */
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

/* Predicts the time at x, as in select_record. */
static inline double select_time(const select_record *r, double x, double rounds) {
    return ((double)r->c[0] * rounds + (double)r->c[1]) * x + ((double)r->c[2] * rounds + (double)r->c[3]);
}

/* Returns ceil(problem / tile), exactly, for whole numbers of which the problem is at most 2^24. A quotient that is not
   whole is above the next whole number below by 1 / tile at least. Rounding it to 24 bits moves it by its 2^-24th part
   at most, which is at most 1 / tile, and by less if it moves at all. So it never falls to that whole number. */
static inline float select_ceil(float problem, float tile) {
    const float q = problem / tile, whole = (float)(int32_t)q;
    return whole + (float)(whole < q);
}

/* Corrections of macro choice i are between 1 - SELECT_CORRECTION and 1 + 128 SELECT_STEP_MOST. */
#define SELECT_CORRECTION 0.95f
#define SELECT_STEP_MOST  0.08f

/* Returns what times are multiplied by: `sum` is a weighted sum of corrections, `step` their unit, as bf16. */
static inline float select_correction(uint16_t step, int16_t sum) {
    return 1 + tw_bf16_to_f32(step) * ((float)sum * (1.0f / TW_LATTICE_UNITS));
}

/* Returns the part of the tiles that a problem uses. */
static inline float select_used(float problem, float tile) {
    return problem / (tile * select_ceil(problem, tile));
}
#endif
