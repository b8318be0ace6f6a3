/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#ifdef TW_HAVE_CHART_JS
extern const unsigned char tw_chart_js[]; /* The build makes it part of the command. */
const char *cli_plots(void) {
    return (const char *)tw_chart_js;
}
#else
const char *cli_plots(void) {
    return NULL;
}
#endif
