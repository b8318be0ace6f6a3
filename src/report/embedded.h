/* SPDX-License-Identifier: Apache-2.0 */
/* Files of this room that the build makes part of the library (cmake/embed.cmake), each with a terminating 0. */
#ifndef TW_REPORT_EMBEDDED_H
#define TW_REPORT_EMBEDDED_H

extern const unsigned char tw_page_style[];           /* page.css */
extern const unsigned char tw_page_script[];          /* page.js */
extern const unsigned char tw_page_timeline_script[]; /* timeline.js */

#endif
