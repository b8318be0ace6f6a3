/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/lines.h"

#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { REMEMBERED = 1000 };
static const char fence[] = "\"\"\"";

struct cli_lines {
    EditLine *editor; /* NULL: lines are read without editing. */
    History *history;
    char *file;
    char *line; /* The last line read without editing. */
    size_t room;
    bool inside;    /* The next line continues a message. */
    bool cut;       /* Ctrl-C ended the line. */
    bool cut_empty; /* Ctrl-C ended an empty line. */
    bool cut_once;  /* The previous line was empty and ended by Ctrl-C. */
};

static char *show_prompt(EditLine *e) {
    static char first[] = "> ", more[] = ". ";
    cli_lines *l;
    el_get(e, EL_CLIENTDATA, &l);
    return l->inside ? more : first;
}

static FILE *screen(void) {
    return isatty(STDOUT_FILENO) ? stdout : stderr;
}

/* Waits for input. Returns false after an interrupt. SIGINT is blocked except during the wait, so none is missed. */
static bool wait_for_input(void) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigprocmask(SIG_BLOCK, &held, &before);
    while (!cli_interrupted() && ppoll(&p, 1, NULL, &before) < 0 && errno == EINTR) {
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !cli_interrupted();
}

/* Marks the line as cut by Ctrl-C. Its reader drops the text. */
static void cut_line(EditLine *e) {
    cli_lines *l;
    el_get(e, EL_CLIENTDATA, &l);
    const LineInfo *at = el_line(e);
    l->cut = true;
    l->cut_empty = at->lastchar == at->buffer;
    cli_interrupt_forget();
    fputs("^C", screen());
    fflush(screen());
}

/* Reads a character from the terminal. An interrupt ends the line as Return does, which leaves libedit ready for the
   next line. */
static int read_char(EditLine *e, wchar_t *out) {
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (!wait_for_input()) {
            cut_line(e);
            *out = L'\n';
            return 1;
        }
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n == 0) return 0;
        if (n < 0 && errno != EINTR) return -1;
        if (n < 0) continue;
        const size_t k = mbrtowc(out, &byte, 1, &state);
        if (k == (size_t)-1) memset(&state, 0, sizeof state); /* Invalid UTF-8 is skipped. */
        if (k == 1 || k == 0) return 1;
    }
}

static bool open_editor(cli_lines *l) {
    HistEvent event;
    /* libedit decodes characters by the locale. In a locale without UTF-8 it would edit single bytes. */
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    l->editor = el_init("tilewright", stdin, screen(), stderr);
    l->history = history_init();
    if (!l->editor || !l->history) return false;
    el_set(l->editor, EL_CLIENTDATA, l);
    el_set(l->editor, EL_PROMPT, show_prompt);
    el_set(l->editor, EL_EDITOR, "emacs");
    el_set(l->editor, EL_SIGNAL, 1);
    el_set(l->editor, EL_GETCFN, read_char);
    el_set(l->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    history(l->history, &event, H_SETSIZE, REMEMBERED);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->editor, EL_HIST, history, l->history);
    if (l->file && tw_file_exists(l->file)) history(l->history, &event, H_LOAD, l->file);
    return true;
}

cli_lines *cli_lines_open(const char *file) {
    cli_lines *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    const bool edits = isatty(STDIN_FILENO) && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO));
    bool ok = !file || (l->file = strdup(file));
    if (ok && edits) ok = open_editor(l);
    if (ok) return l;
    cli_lines_close(l);
    return NULL;
}

/* Saves the history: writes a temporary file and renames it. A failure is ignored. */
static void save(cli_lines *l) {
    char folder[4096], fresh[4200];
    HistEvent event;
    snprintf(folder, sizeof folder, "%s", l->file);
    *strrchr(folder, '/') = 0;
    snprintf(fresh, sizeof fresh, "%s.%ld", l->file, (long)getpid());
    if (!tw_folder_make(folder)) return;
    if (history(l->history, &event, H_SAVE, fresh) < 0 || rename(fresh, l->file)) remove(fresh);
}

void cli_lines_close(cli_lines *l) {
    if (!l) return;
    if (l->editor && l->history && l->file) save(l);
    if (l->editor) el_end(l->editor);
    if (l->history) history_end(l->history);
    free(l->file);
    free(l->line);
    free(l);
}

bool cli_lines_edited(const cli_lines *l) {
    return l->editor != NULL;
}

/* ---- single lines, without their ends */

static cli_line edited(cli_lines *l, const char **text, size_t *size) {
    HistEvent event;
    int n = 0;
    l->cut = false;
    const char *line = el_gets(l->editor, &n);
    if (!l->cut && (!line || n < 1)) return CLI_LINE_END;
    if (l->cut) {
        const bool empty = l->cut_empty && !l->inside;
        if (empty && l->cut_once) return CLI_LINE_END;
        if (empty) fputs("(once more ends the conversation, as Ctrl-D does)\n", stderr);
        l->cut_once = empty;
        return CLI_LINE_CUT;
    }
    l->cut_once = false;
    *text = line;
    *size = (size_t)n - (line[n - 1] == '\n');
    if (*size) history(l->history, &event, H_ENTER, line);
    return CLI_LINE_TEXT;
}

static cli_line plain(cli_lines *l, const char **text, size_t *size) {
    const ssize_t n = getline(&l->line, &l->room, stdin);
    if (n < 0) return ferror(stdin) ? CLI_LINE_FAILED : CLI_LINE_END;
    *text = l->line;
    *size = (size_t)n - (n && l->line[n - 1] == '\n');
    return CLI_LINE_TEXT;
}

static cli_line one(cli_lines *l, const char **text, size_t *size) {
    return l->editor ? edited(l, text, size) : plain(l, text, size);
}

static bool begins_with_fence(const char *text, size_t size) {
    return size >= 3 && !memcmp(text, fence, 3);
}

static bool ends_with_fence(const char *text, size_t size) {
    return size >= 3 && !memcmp(text + size - 3, fence, 3);
}

/* Reads the rest of a fenced message, up to a line that ends with a fence or the end of the input. A line that is only
   a fence adds nothing. */
static cli_line read_block(cli_lines *l, const char *text, size_t size, tw_buf *out) {
    bool opening = true, any = false;
    cli_line got = CLI_LINE_TEXT;
    text += sizeof fence - 1;
    size -= sizeof fence - 1;
    while (got == CLI_LINE_TEXT) {
        const bool last = ends_with_fence(text, size);
        if (last) size -= sizeof fence - 1;
        if (size || !(opening || last)) {
            if (any) tw_buf_str(out, "\n");
            tw_buf_add(out, text, size);
            any = true;
        }
        opening = false;
        if (last) return CLI_LINE_TEXT;
        got = one(l, &text, &size);
    }
    return got == CLI_LINE_END ? CLI_LINE_TEXT : got;
}

cli_line cli_lines_read(cli_lines *l, tw_buf *out) {
    const char *text;
    size_t size;
    tw_buf_clear(out);
    l->inside = false;
    cli_line got = one(l, &text, &size);
    l->inside = true;
    if (got == CLI_LINE_TEXT && begins_with_fence(text, size))
        got = read_block(l, text, size, out);
    else
        for (bool more = true; got == CLI_LINE_TEXT && more;) {
            more = size && text[size - 1] == '\\';
            tw_buf_add(out, text, size - more);
            if (!more) break;
            tw_buf_str(out, "\n");
            got = one(l, &text, &size);
            if (got == CLI_LINE_END) return out->failed ? CLI_LINE_FAILED : CLI_LINE_TEXT;
        }
    return out->failed ? CLI_LINE_FAILED : got;
}
