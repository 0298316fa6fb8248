/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_PROCESS_H
#define SNIB_CLI_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* A hand on a process: what is read and what is signalled is the same one, whatever becomes of
 * its number. Numbers are those that /proc shows. */
struct process {
    int folder; /* /proc/N */
    pid_t pid, parent, group, session;
    char state;
    int threads;
    char name[16];
};

bool process_open(struct process *out, pid_t number);
void process_close(struct process *process);
bool process_lives(const struct process *process); /* a zombie does not */
void process_signal(const struct process *process, int number);

/* Its children, at most `room` of them; answers how many. */
size_t process_children(const struct process *process, pid_t *out, size_t room);

/* Our own number in /proc, which may be mounted for another process namespace; 0: no /proc. */
pid_t process_self(void);

/* Is `pid` this process or an ancestor of it? True also when /proc cannot tell. */
bool process_is_above(pid_t pid);

#endif
