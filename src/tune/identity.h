/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of an artefact's device with one that is here. */
#ifndef TW_TUNE_IDENTITY_H
#define TW_TUNE_IDENTITY_H

#include "tilewright/select.h"

/* Returns the kind of device that a family of Tilewright's runs on, by the family's name: "cpu" or "cuda". NULL: the
   name is of no such family. */
const char *tw_identity_device(const char *kernel);

/* Compares the device that an artefact was measured on with a device of this machine. `device` names the latter: "cpu",
   "cuda", "cuda:N", or "auto" for the kind of device that the artefact's kernel runs on. With "auto", *out is
   TW_SELECT_UNKNOWN if this machine has no such device, or if the kernel is not one of the tuner's. `threads` is the
   number of threads of a processor. 0: all cores. TW_ERR_USAGE: `device` is another word. TW_ERR_UNSUPPORTED: the named
   GPU is not in this machine. */
tw_status tw_identity_match(const tw_selector *s, const char *device, int threads, tw_select_match *out, tw_diag *diag);

#endif
