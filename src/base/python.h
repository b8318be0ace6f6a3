/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the spelling of Python. */
#ifndef TW_BASE_PYTHON_H
#define TW_BASE_PYTHON_H

enum { TW_PYTHON_FLOAT = 32 /* Bytes of a spelled number, with the 0 at its end. */ };

/* Spells a number as repr() and str() do: with the fewest digits that read back as the same number, and with an
   exponent below 1e-4 and from 1e16 on. Numbers that are not finite are "nan", "inf" and "-inf". */
void tw_python_float(char out[TW_PYTHON_FLOAT], double x);

/* Spells a number as json.dumps() does: as tw_python_float, but "NaN", "Infinity" and "-Infinity". */
void tw_python_json_float(char out[TW_PYTHON_FLOAT], double x);

#endif
