/* SPDX-License-Identifier: Apache-2.0 */
/* json FILE [PATH ...]: is FILE ("-": standard input) JSON, and what lies at each dotted path? A path's numbers are
   list indices; "#" is how many a list or an object has. Prints one line a path; exit 1 when it is not JSON, or there
   is nothing at a path. */
#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *step(const json_t *at, const char *key) {
    return json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10)) : json_object_get(at, key);
}

static int show(const json_t *at, char *path) {
    for (char *key = strtok(path, "."); key; key = strtok(NULL, ".")) {
        if (!strcmp(key, "#")) {
            printf("%zu\n", json_is_array(at) ? json_array_size(at) : json_object_size(at));
            return 0;
        }
        at = step(at, key);
        if (!at) {
            fprintf(stderr, "json: nothing at %s\n", key);
            return 1;
        }
    }
    char *text = json_is_string(at) ? NULL : json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT);
    puts(json_is_string(at) ? json_string_value(at) : text);
    free(text);
    return 0;
}

int main(int argc, char **argv) {
    json_error_t e;
    if (argc < 2) return 2;
    json_t *root =
        strcmp(argv[1], "-") ? json_load_file(argv[1], JSON_DECODE_ANY, &e) : json_loadf(stdin, JSON_DECODE_ANY, &e);
    if (!root) {
        fprintf(stderr, "json: %s:%d:%d: %s\n", argv[1], e.line, e.column, e.text);
        return 1;
    }
    int bad = 0;
    for (int i = 2; i < argc; i++) bad |= show(root, argv[i]);
    json_decref(root);
    return bad;
}
