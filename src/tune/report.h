/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a tuning session: one HTML file with its figures, plots and tables (report/page.h). */
#ifndef TW_TUNE_REPORT_H
#define TW_TUNE_REPORT_H

#include "tune/session.h"

typedef struct tw_tune_report {
    const tw_family *family;
    const tw_session *session;
    tw_store *store;      /* The store that has the session's measurements. */
    const char *campaign; /* Name of the session's campaign. */
    const char *artefact; /* Path of the artefact. */
    const char *command;  /* The command line, as the report shows it. */
    const char *date;     /* Date and time of the report, as text. */
    const char *plots;    /* Source of Chart.js. NULL: the page has no plots, and says so. */
} tw_tune_report;

/* Writes the report beside `path` and renames it. */
tw_status tw_tune_report_write(const tw_tune_report *r, const char *path, tw_diag *diag);

#endif
