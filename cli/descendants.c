/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes below this one, whatever process group or session they have moved to.
 *
 * A walk over a tree that grows meanwhile finds some of it. What makes it enough for killing:
 *
 * - The parent is killed before its children are visited. A process that has a KILL pending forks
 *   no more, so behind the walk nothing grows.
 * - This process is a subreaper: whoever loses its parent becomes our child, and is found by the
 *   next walk. Nobody gets out from below us but by being reaped.
 * - So the caller walks again until waitpid(2) says that there are no children at all. That, and
 *   not an empty walk, is the proof.
 *
 * Children are listed before their parent is signalled, because the list of a dead one is empty. A
 * number that was listed is visited only if it still is a child of the same parent, or of ours.
 *
 * A process group that a descendant leads was made below us, and is killed in one step. Where /proc
 * shows other numbers than kill(2) takes (a process namespace without a /proc of its own), groups
 * are left alone and the walk does it all.
 */
#include "descendants.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHILDREN_MOST 512 /* of one process in one walk; the next finds more */
#define DEPTH_MOST 100    /* what is deeper comes up when its ancestors are dead */

struct walk {
    const struct descendants *which;
    int number;
    pid_t self, session; /* ours, as /proc shows them */
    bool groups;         /* numbers of /proc may be given to kill(2) */
    int found;
    struct process first; /* the first that was found, for its name */
};

static bool is_spared(const struct walk *w, const struct process *p)
{
    return w->which->spare && strcmp(p->name, SUPERVISOR_NAME) == 0;
}

static bool is_meant(const struct walk *w, const struct process *p)
{
    const struct descendants *d = w->which;
    return (!d->session || p->session == w->session) &&
           (d->but_group == 0 || p->group != d->but_group);
}

static void signal_one(const struct walk *w, const struct process *p)
{
    process_signal(p, w->number);
    if (w->number == SIGTERM) {
        process_signal(p, SIGCONT);
    }
    if (w->number == SIGKILL && w->groups && p->group == p->pid) {
        kill(-p->group, SIGKILL);
    }
}

static void visit_all(struct walk *w, const pid_t *children, size_t count, pid_t parent, int depth);

static void visit(struct walk *w, const struct process *p, int depth)
{
    pid_t children[CHILDREN_MOST];
    size_t count = 0;
    if (!process_lives(p)) {
        return; /* its children are ours already */
    }
    bool spared = is_spared(w, p), meant = is_meant(w, p);
    if (!spared && depth < DEPTH_MOST) {
        count = process_children(p, children, CHILDREN_MOST);
    }
    if (meant) {
        w->first = w->found++ == 0 ? *p : w->first;
    }
    if (meant && !spared && w->number) {
        signal_one(w, p);
    }
    visit_all(w, children, count, p->pid, depth + 1);
}

static void visit_all(struct walk *w, const pid_t *children, size_t count, pid_t parent, int depth)
{
    struct process p;
    for (size_t i = 0; i < count; i++) {
        if (process_open(&p, children[i])) {
            if (p.parent == parent || p.parent == w->self) {
                visit(w, &p, depth);
            }
            process_close(&p);
        }
    }
}

static bool is_excepted(const struct descendants *d, pid_t child)
{
    for (size_t i = 0; i < d->but_count; i++) {
        if (d->but[i] == child) {
            return true;
        }
    }
    return false;
}

static struct walk walk(const struct descendants *which, int number)
{
    pid_t children[CHILDREN_MOST];
    struct walk w = {.which = which, .number = number, .self = process_self()};
    struct process self;
    if (w.self <= 0 || !process_open(&self, w.self)) {
        return w;
    }
    w.session = self.session;
    w.groups = w.self == getpid();
    size_t kept = 0, count = process_children(&self, children, CHILDREN_MOST);
    process_close(&self);
    for (size_t i = 0; i < count; i++) {
        if (!is_excepted(which, children[i])) {
            children[kept++] = children[i];
        }
    }
    visit_all(&w, children, kept, w.self, 0);
    return w;
}

int descendants_signal(const struct descendants *which, int number)
{
    return walk(which, number).found;
}

const char *descendants_text(char out[DESCENDANTS_TEXT], const struct descendants *which)
{
    struct walk w = walk(which, 0);
    if (w.found == 0) {
        (void)snprintf(out, DESCENDANTS_TEXT, "nobody");
    } else if (w.found == 1) {
        (void)snprintf(out, DESCENDANTS_TEXT, "%s (%d)", w.first.name, (int)w.first.pid);
    } else {
        (void)snprintf(out, DESCENDANTS_TEXT, "%s (%d) and %d more", w.first.name, (int)w.first.pid,
                       w.found - 1);
    }
    return out;
}
