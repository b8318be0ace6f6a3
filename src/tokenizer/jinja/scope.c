/* SPDX-License-Identifier: Apache-2.0 */
/* Gives every name its place, as Jinja's compiler does. Blocks with their own variables are frames. A frame belongs to
   a scope, which is a function in the code that Jinja compiles: the template, a macro, a recursive loop, or the test of
   a loop. A variable is a slot of its frame's scope, which its name and its frame's depth determine. Sibling frames
   share slots, and a macro sees the variables around it as they are when it is called. A slot's value when its frame is
   entered is decided here: a parameter, the context's variable, a copy of the variable around, or nothing. */
#include "base/diag.h"
#include "tokenizer/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t key[2]; /* 0, 0: the entry is empty. */
    void *symbol;
    int slot;
} entry;

typedef struct resolver {
    jinja_parser *p;
    jinja_template *t;
    entry *v; /* Symbols by frame and name, slots by scope, level and name. */
    size_t n, mask;
    uint32_t frames, scopes;
    uint32_t special[3]; /* The names caller, kwargs and varargs. */
    uint32_t loop;
} resolver;

enum { OF_FRAME = 1, OF_SCOPE = 2 };

static void out_of_memory(resolver *r) {
    if (r->p->status == TW_OK) r->p->status = tw_fail_memory(r->p->diag);
}

static size_t probe(const entry *v, size_t mask, uint64_t a, uint64_t b) {
    uint64_t h = (a * 0x9e3779b97f4a7c15u ^ b) * 0xbf58476d1ce4e5b9u;
    size_t k = (size_t)(h >> 20) & mask;
    while (v[k].key[0] && (v[k].key[0] != a || v[k].key[1] != b)) k = (k + 1) & mask;
    return k;
}

/* Finds an entry, or NULL. With `make` it is made if it is missing. */
static entry *lookup(resolver *r, uint64_t a, uint64_t b, bool make) {
    if (!r->v || (make && 2 * (r->n + 1) > r->mask + 1)) {
        size_t slots = r->v ? 2 * (r->mask + 1) : 256;
        entry *v = calloc(slots, sizeof *v);
        if (!v) {
            out_of_memory(r);
            return NULL;
        }
        for (size_t i = 0; r->v && i <= r->mask; i++)
            if (r->v[i].key[0]) v[probe(v, slots - 1, r->v[i].key[0], r->v[i].key[1])] = r->v[i];
        free(r->v);
        r->v = v;
        r->mask = slots - 1;
    }
    entry *e = &r->v[probe(r->v, r->mask, a, b)];
    if (e->key[0]) return e;
    if (!make) return NULL;
    *e = (entry){.key = {a, b}, .slot = -1};
    r->n++;
    return e;
}

/* ---- frames ---- */

static jinja_scope *scope_new(resolver *r, jinja_scope *parent) {
    jinja_scope *s = tw_arena_alloc(&r->t->arena, sizeof *s);
    if (!s) {
        out_of_memory(r);
        return NULL;
    }
    *s = (jinja_scope){.parent = parent, .id = ++r->scopes};
    return s;
}

static jinja_frame *frame_new(resolver *r, jinja_frame *parent, jinja_scope *scope) {
    jinja_frame *f = tw_arena_alloc(&r->t->arena, sizeof *f);
    if (!f || !scope) {
        out_of_memory(r);
        return NULL;
    }
    *f = (jinja_frame){.parent = parent, .scope = scope, .id = ++r->frames, .level = parent ? parent->level + 1 : 0};
    f->last = &f->first;
    return f;
}

static jinja_symbol *own(resolver *r, const jinja_frame *f, uint32_t name) {
    entry *e = lookup(r, (uint64_t)OF_FRAME << 60 | f->id, name, false);
    return e ? e->symbol : NULL;
}

/* Finds the symbol that `name` means in a frame, and how many scopes up it is. NULL: none. */
static jinja_symbol *find(resolver *r, const jinja_frame *f, uint32_t name, int *hops) {
    *hops = 0;
    for (const jinja_frame *g = f; g && r->p->status == TW_OK; g = g->parent) {
        jinja_symbol *s = own(r, g, name);
        if (s) {
            for (const jinja_scope *c = f->scope; c != g->scope; c = c->parent) ++*hops;
            return s;
        }
    }
    return NULL;
}

static jinja_symbol *define(resolver *r, jinja_frame *f, uint32_t name, jinja_load load) {
    entry *slot = lookup(r, (uint64_t)OF_SCOPE << 60 | f->scope->id, (uint64_t)f->level << 32 | name, true);
    if (!slot) return NULL;
    if (slot->slot < 0) slot->slot = f->scope->slots++;
    int number = slot->slot;
    entry *e = lookup(r, (uint64_t)OF_FRAME << 60 | f->id, name, true);
    jinja_symbol *s = e ? tw_arena_alloc(&r->t->arena, sizeof *s) : NULL;
    if (!s) {
        out_of_memory(r);
        return NULL;
    }
    *s = (jinja_symbol){.name = name, .load = load, .slot = number};
    e->symbol = s;
    *f->last = s;
    f->last = &s->next;
    return s;
}

static void parameter(resolver *r, jinja_frame *f, uint32_t name) {
    jinja_symbol *s = own(r, f, name);
    if (s)
        s->load = JL_PARAMETER;
    else
        define(r, f, name, JL_PARAMETER);
}

static void load(resolver *r, jinja_frame *f, uint32_t name) {
    int hops;
    if (!find(r, f, name, &hops)) define(r, f, name, JL_RESOLVE);
}

/* Notes a write. `branch`: it is inside an if, after which the variable may still be the context's. */
static void store(resolver *r, jinja_frame *f, uint32_t name, bool branch) {
    if (own(r, f, name)) return;
    int hops;
    jinja_symbol *outer = f->parent ? find(r, f->parent, name, &hops) : NULL;
    if (!outer) {
        define(r, f, name, branch ? JL_RESOLVE : JL_UNDEFINED);
        return;
    }
    for (const jinja_scope *c = f->scope; c != f->parent->scope; c = c->parent) hops++;
    jinja_symbol *s = define(r, f, name, JL_ALIAS);
    if (s) s->from = (jinja_place){hops, outer->slot};
}

/* ---- which names a frame has ---- */

static void note(resolver *r, jinja_frame *f, const jinja_node *n, bool branch);

static void note_list(resolver *r, jinja_frame *f, const jinja_nodes *list, bool branch) {
    for (size_t i = 0; i < list->n; i++) note(r, f, list->v[i], branch);
}

/* Notes the parts of an expression, from left to right. */
static void note_parts(resolver *r, jinja_frame *f, const jinja_node *n, bool branch) {
    note(r, f, n->a, branch);
    note(r, f, n->b, branch);
    note(r, f, n->c, branch);
    note_list(r, f, &n->list, branch);
    for (size_t i = 0; i < n->keywords.n; i++) note(r, f, n->keywords.v[i]->a, branch);
    note(r, f, n->rest, branch);
    note(r, f, n->keyword_rest, branch);
}

/* Notes what this frame itself reads and writes. Frames inside are noted when they are made. */
static void note(resolver *r, jinja_frame *f, const jinja_node *n, bool branch) {
    if (!n || r->p->status != TW_OK) return;
    switch (n->type) {
    case JN_NAME:
        if (n->store)
            store(r, f, n->name, branch);
        else
            load(r, f, n->name);
        break;
    case JN_NSREF:
        load(r, f, n->name);
        break;
    case JN_IF:
        note(r, f, n->a, branch);
        note(r, f, n->b, true);
        note_list(r, f, &n->list, true);
        note(r, f, n->c, true);
        break;
    case JN_FOR:
        note(r, f, n->a, branch);
        break;
    case JN_SET:
        note(r, f, n->a, branch);
        note(r, f, n->target, branch);
        break;
    case JN_SETBLOCK:
        note(r, f, n->target, branch);
        break;
    case JN_MACRO:
        store(r, f, n->name, branch);
        break;
    case JN_CALLBLOCK:
    case JN_FILTERBLOCK:
        note(r, f, n->a, branch);
        break;
    case JN_WITH:
        note_list(r, f, &n->list, branch);
        break;
    default:
        note_parts(r, f, n, branch);
        break;
    }
}

static void note_parameters(resolver *r, jinja_frame *f, const jinja_node *target) {
    if (!target) return;
    if (target->type == JN_TUPLE)
        for (size_t i = 0; i < target->list.n; i++) note_parameters(r, f, target->list.v[i]);
    else
        parameter(r, f, target->name);
}

/* ---- which special names a body asks for ---- */

typedef struct asked {
    const uint32_t *names;
    int n;
    unsigned looking, found; /* Bit i stands for names[i]. */
} asked;

static void ask(asked *a, const jinja_node *n);

static void ask_list(asked *a, const jinja_nodes *list) {
    for (size_t i = 0; i < list->n; i++) ask(a, list->v[i]);
}

static void ask_name(asked *a, uint32_t name, bool load) {
    for (int i = 0; i < a->n; i++) {
        if (a->names[i] != name || !(a->looking & 1u << i)) continue;
        if (load)
            a->found |= 1u << i;
        else
            a->looking &= ~(1u << i);
    }
}

/* Finds which of a->names are read before they are written. Nodes are visited in Jinja's order. */
static void ask(asked *a, const jinja_node *n) {
    if (!n) return;
    switch (n->type) {
    case JN_NAME:
        ask_name(a, n->name, !n->store);
        return;
    case JN_NSREF:
        return;
    case JN_FOR:
        ask(a, n->target);
        ask(a, n->a);
        ask(a, n->b);
        ask(a, n->c);
        ask(a, n->d);
        return;
    case JN_IF:
        ask(a, n->a);
        ask(a, n->b);
        ask_list(a, &n->list);
        ask(a, n->c);
        return;
    case JN_SETBLOCK:
    case JN_SET:
    case JN_WITH:
        ask(a, n->target);
        ask_list(a, &n->list);
        ask(a, n->a);
        ask(a, n->b);
        return;
    case JN_FILTERBLOCK:
        ask(a, n->b);
        ask(a, n->a);
        return;
    case JN_MACRO:
    case JN_CALLBLOCK:
        ask(a, n->a);
        ask_list(a, &n->list);
        ask_list(a, &n->defaults);
        ask(a, n->b);
        return;
    case JN_IFELSE:
        ask(a, n->b);
        ask(a, n->a);
        ask(a, n->c);
        return;
    default:
        ask(a, n->a);
        ask(a, n->b);
        ask(a, n->c);
        ask_list(a, &n->list);
        for (size_t i = 0; i < n->keywords.n; i++) ask(a, n->keywords.v[i]->a);
        ask(a, n->rest);
        ask(a, n->keyword_rest);
        return;
    }
}

/* ---- places ---- */

static void visit(resolver *r, jinja_frame *f, jinja_node *n, bool soft);

static void visit_list(resolver *r, jinja_frame *f, const jinja_nodes *list, bool soft) {
    for (size_t i = 0; i < list->n; i++) visit(r, f, list->v[i], soft);
}

static jinja_place place(resolver *r, const jinja_frame *f, uint32_t name, uint32_t at) {
    int hops;
    const jinja_symbol *s = find(r, f, name, &hops);
    if (s) return (jinja_place){hops, s->slot};
    /* Jinja does not search the filters of a set block for names, and fails here too. */
    jinja_syntax(r->p, at, TW_ERR_FORMAT, "the name %.60s is not known here", r->t->names.v[name]->data);
    return (jinja_place){0, 0};
}

static void check_known(resolver *r, const jinja_node *n, bool soft) {
    if (n->found || soft) return;
    jinja_syntax(r->p, n->at, TW_ERR_FORMAT, "there is no %s %.60s", n->type == JN_FILTER ? "filter" : "test",
                 n->value.s->data);
}

static jinja_node *copy_target(resolver *r, const jinja_node *n) {
    jinja_node *c = jinja_node_new(r->p, n->type, n->at);
    *c = *n;
    c->list = (jinja_nodes){0};
    for (size_t i = 0; i < n->list.n; i++) jinja_nodes_push(r->p, &c->list, copy_target(r, n->list.v[i]));
    return c;
}

static void visit_for(resolver *r, jinja_frame *f, jinja_node *n, bool soft) {
    asked a = {&r->loop, 1, 1, 0};
    ask(&a, n->b);
    n->extended = n->recursive || a.found;
    jinja_scope *scope = f->scope;
    if (n->recursive) scope = n->scope = scope_new(r, scope);
    n->frame = frame_new(r, f, scope);
    if (!n->frame) return;
    if (n->extended) parameter(r, n->frame, r->loop);
    note_parameters(r, n->frame, n->target);
    note(r, n->frame, n->b, false);
    if (n->c && (n->else_frame = frame_new(r, f, scope))) note(r, n->else_frame, n->c, false);
    if (n->d) {
        n->test_scope = scope_new(r, f->scope); /* The test's frame is defined before the loop's own. */
        n->test_frame = frame_new(r, f, n->test_scope);
        if (!n->test_frame) return;
        note_parameters(r, n->test_frame, n->target);
        note(r, n->test_frame, n->d, false);
        n->test_target = copy_target(r, n->target);
        visit(r, n->test_frame, n->test_target, false);
        visit(r, n->test_frame, n->d, false);
    }
    if (n->extended) n->loop_place = place(r, n->frame, r->loop, n->at);
    visit(r, n->frame, n->target, false);
    visit(r, f, n->a, soft);
    visit(r, n->frame, n->b, false);
    if (n->else_frame) visit(r, n->else_frame, n->c, false);
}

static void visit_macro(resolver *r, jinja_frame *f, jinja_node *n) {
    n->scope = scope_new(r, f->scope);
    n->frame = frame_new(r, f, n->scope);
    if (!n->frame) return;
    int caller = -1;
    asked a = {r->special, 3, 7, 0};
    for (size_t i = 0; i < n->list.n; i++) {
        parameter(r, n->frame, n->list.v[i]->name);
        if (n->list.v[i]->name == r->special[0]) caller = (int)i;
    }
    note_list(r, n->frame, &n->defaults, false);
    note(r, n->frame, n->b, false);
    ask(&a, n->b);
    bool *wanted[3] = {&n->caller, &n->kwargs, &n->varargs};
    for (int k = 0; k < 3 && r->p->status == TW_OK; k++) {
        if (!(a.found & 1u << k)) continue;
        bool declared = false;
        for (size_t i = 0; i < n->list.n; i++) declared = declared || n->list.v[i]->name == r->special[k];
        if (k == 0 && declared && (size_t)caller < n->list.n - n->defaults.n)
            jinja_syntax(r->p, n->at, TW_ERR_FORMAT, "the parameter caller needs a default");
        if (k > 0 && declared) continue;
        *wanted[k] = true;
        if (!declared) parameter(r, n->frame, r->special[k]);
        n->special[k] = place(r, n->frame, r->special[k], n->at);
    }
    visit_list(r, n->frame, &n->list, false);
    visit_list(r, n->frame, &n->defaults, false);
    visit(r, n->frame, n->b, false);
    if (n->type == JN_MACRO) n->place = place(r, f, n->name, n->at);
}

static void visit_if(resolver *r, jinja_frame *f, jinja_node *n) {
    visit(r, f, n->a, true);
    visit(r, f, n->b, true);
    visit_list(r, f, &n->list, true);
    visit(r, f, n->c, true);
}

static void visit_parts(resolver *r, jinja_frame *f, jinja_node *n, bool soft) {
    if (n->type == JN_IFELSE) soft = true;
    if (n->type == JN_FILTER || n->type == JN_TEST) check_known(r, n, soft);
    visit(r, f, n->a, soft);
    visit(r, f, n->b, soft);
    visit(r, f, n->c, soft);
    visit_list(r, f, &n->list, soft);
    for (size_t i = 0; i < n->keywords.n; i++) visit(r, f, n->keywords.v[i]->a, soft);
    visit(r, f, n->rest, soft);
    visit(r, f, n->keyword_rest, soft);
}

static void visit(resolver *r, jinja_frame *f, jinja_node *n, bool soft) {
    if (!n || !f || r->p->status != TW_OK) return;
    switch (n->type) {
    case JN_NAME:
    case JN_NSREF:
        n->place = place(r, f, n->name, n->at);
        break;
    case JN_FOR:
        visit_for(r, f, n, soft);
        break;
    case JN_IF:
        visit_if(r, f, n);
        break;
    case JN_SET:
        visit(r, f, n->target, soft);
        visit(r, f, n->a, soft);
        break;
    case JN_SETBLOCK:
        n->frame = frame_new(r, f, f->scope);
        if (!n->frame) return;
        note(r, n->frame, n->b, false);
        visit(r, n->frame, n->b, false);
        visit(r, f, n->target, soft);
        visit(r, n->frame, n->a, false);
        break;
    case JN_MACRO:
        visit_macro(r, f, n);
        break;
    case JN_CALLBLOCK:
        visit_macro(r, f, n);
        visit(r, f, n->a, soft);
        break;
    case JN_FILTERBLOCK:
        n->frame = frame_new(r, f, f->scope);
        if (!n->frame) return;
        note(r, n->frame, n->b, false);
        note(r, n->frame, n->a, false);
        visit(r, n->frame, n->b, false);
        visit(r, n->frame, n->a, false);
        break;
    case JN_WITH:
        n->frame = frame_new(r, f, f->scope);
        if (!n->frame) return;
        note_parameters(r, n->frame, n->target);
        note(r, n->frame, n->b, false);
        visit(r, n->frame, n->target, false);
        visit_list(r, f, &n->list, soft);
        visit(r, n->frame, n->b, false);
        break;
    default:
        visit_parts(r, f, n, soft);
        break;
    }
}

void jinja_resolve(jinja_parser *p) {
    jinja_template *t = p->t;
    static const char *const special[3] = {"caller", "kwargs", "varargs"};
    resolver r = {.p = p, .t = t};
    for (int i = 0; i < 3; i++) r.special[i] = jinja_intern(t, special[i], strlen(special[i]));
    r.loop = jinja_intern(t, "loop", 4);
    t->scope = scope_new(&r, NULL);
    t->frame = frame_new(&r, NULL, t->scope);
    if (t->frame) {
        note(&r, t->frame, t->body, false);
        visit(&r, t->frame, t->body, false);
    }
    if (p->status == TW_OK && (t->arena.failed || t->names.failed)) p->status = tw_fail_memory(p->diag);
    free(r.v);
}
