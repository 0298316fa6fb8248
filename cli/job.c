/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job: the user's command, leader of a process group of its own, and all that it starts.
 *
 * It is started by vfork: no page is copied, and the supervisor stands still until the command
 * executes or fails. Nothing depends on the latter (some tools make a fork of it). Between vfork
 * and exec there are system calls only, no handler can run (none is installed) and nothing of
 * the supervisor's memory is written but the shared word that tells why it failed, if it did.
 *
 * The parent-death signal comes first, and is checked for the parent having died just before; it
 * is lost when the command changes its user, and then the guardian is what remains.
 *
 * Signals that are passed on go to the group of the command, as a terminal would send them. What
 * must end goes by ancestry, since groups are left easily (timeout(1), a shell with job control).
 * A session of its own is what daemons make: at a normal end it is left alone, but when the lock is
 * lost, or nobody is there who could hold it, a daemon of the job is no better than the rest.
 */
#include "job.h"

#include "clock.h"
#include "command.h"
#include "descendants.h"
#include "say.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const struct job_plan *plan, pid_t supervisor)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&plan->witness->group, getpid());
    if (plan->witnessed) {
        witness_await(plan->witness);
    }
    terminal_take_in_child(plan->terminal);
    if (clock_now_ns() >= plan->not_after_ns) {
        *plan->error = ETIME;
        _exit(STATUS_INTERNAL);
    }
    if (getppid() != supervisor) {
        _exit(STATUS_INTERNAL);
    }
    signals_give_back(plan->signals);
    execvpe(plan->command[0], plan->command, plan->environment);
    *plan->error = errno;
    _exit(STATUS_NOT_FOUND);
}

/* Nothing of its own that a returning vfork could find changed. If the file to execute cannot be
 * read for long, we stand still for long, and the guardian sees to it that the job does not run
 * past the deadline. */
static pid_t start(const struct job_plan *plan, pid_t supervisor)
{
    pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (pid == 0) {
        become(plan, supervisor); // NOLINT(clang-analyzer-unix.Vfork)
    }
    return pid;
}

int job_start(struct job *job, const struct job_plan *plan)
{
    pid_t pid = start(plan, getpid());
    if (pid < 0) {
        return fail(STATUS_INTERNAL, "cannot start a process: %s", strerror(errno));
    }
    terminal_lend_noted(plan->terminal, pid);
    *job = (struct job){.pid = pid};
    return 0;
}

int job_report_error(int error, const char *name)
{
    if (error == 0) {
        return 0;
    }
    if (error == ETIME) {
        return fail(STATUS_LOST, "the lease ran out before the command could start");
    }
    if (error == ENOENT && !strchr(name, '/')) {
        return fail(STATUS_NOT_FOUND, "%s: command not found", name);
    }
    return fail(error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE, "%s: %s", name,
                strerror(error));
}

static struct descendants everybody(const struct job *job)
{
    return (struct descendants){.session = !job->whole};
}

/* The number of its group is nobody else's as long as the command was not reaped. */
void job_signal(const struct job *job, int number)
{
    struct descendants all = everybody(job);
    if (!job->ended) {
        kill(-job->pid, number);
    } else {
        (void)descendants_signal(&all, number);
    }
}

/* The group comes last: were its shells to die while the others are looked for below them, some
 * would be found by nobody, and hear of it by the KILL. */
void job_terminate(const struct job *job)
{
    struct descendants others = everybody(job);
    others.spare = true; /* the guardian above them hears it, and passes it on */
    others.but_group = job->ended ? 0 : job->pid;
    (void)descendants_signal(&others, SIGTERM);
    if (!job->ended) {
        kill(-job->pid, SIGTERM);
        kill(-job->pid, SIGCONT);
    }
}

void job_kill(const struct job *job)
{
    struct descendants all = everybody(job);
    all.spare = clock_now_ns() < job->spare_until_ns;
    if (!job->ended) {
        kill(-job->pid, SIGKILL);
    }
    (void)descendants_signal(&all, SIGKILL);
}

bool job_lives(const struct job *job)
{
    struct descendants all = everybody(job);
    return descendants_signal(&all, 0) > 0;
}

const char *job_text(char *out, const struct job *job)
{
    struct descendants all = everybody(job);
    return descendants_text(out, &all);
}
