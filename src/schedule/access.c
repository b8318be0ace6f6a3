/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/access.h"

#include <limits.h>
#include <stdlib.h>

bool tw_access_list_add(tw_access_list *list, const tw_access *a) {
    if (list->count == list->room) {
        int room = list->room > INT_MAX / 4 ? 0 : list->room ? 4 * list->room : 256;
        tw_access *p = room ? realloc(list->item, (size_t)room * sizeof *p) : NULL;
        if (!p) return false;
        list->item = p;
        list->room = room;
    }
    list->item[list->count++] = *a;
    return true;
}

void tw_access_list_free(tw_access_list *list) {
    free(list->item);
    *list = (tw_access_list){0};
}
