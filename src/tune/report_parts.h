/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of tune/report.h share. */
#ifndef TW_TUNE_REPORT_PARTS_H
#define TW_TUNE_REPORT_PARTS_H

#include "report/page.h"
#include "tune/report.h"

/* Adds the section of a session whose model is by waves: the times of one macro choice over its waves, as measured and
   as predicted. Adds nothing if no points were measured. */
tw_status tw_report_add_waves(const tw_tune_report *r, tw_page *p, tw_diag *diag);

#endif
