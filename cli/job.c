/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job: the user's command, leader of a process group of its own.
 *
 * It is started by vfork: no page is copied, and the supervisor stands still until the command
 * executes or fails. Nothing depends on the latter (some tools make a fork of it). Between vfork
 * and exec there are system calls only, no handler can run (none is installed) and nothing of
 * the supervisor's memory is written but the shared page, which tells why it failed, if it did.
 *
 * Before it executes, the child writes its group into the page the guardian reads: from then on
 * there is no instant at which the job runs and the guardian does not know it. The parent-death
 * signal comes first, and is checked for the parent having died just before; it is lost when the
 * command changes its user, and then the guardian is what remains.
 *
 * The leader's number cannot be used again while a process is in its group, or before the leader
 * was reaped. So after it was reaped, a group that still exists is the job's, unless all process
 * numbers went round in between; the guardian, which may look much later, also compares sessions.
 */
#include "job.h"

#include "clock.h"
#include "command.h"
#include "group.h"
#include "say.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const struct job_plan *plan, pid_t supervisor)
{
    struct guard_page *page = plan->page;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    terminal_take_in_child(plan->terminal);
    atomic_store(&page->pgid, getpid());
    if (clock_now_ns() >= plan->not_after_ns) {
        page->exec_errno = ETIME;
        _exit(STATUS_INTERNAL);
    }
    if (getppid() != supervisor) {
        _exit(STATUS_INTERNAL);
    }
    signals_give_back(plan->signals);
    execvpe(plan->command[0], plan->command, plan->environment);
    page->exec_errno = errno;
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
    *job = (struct job){.pid = pid, .page = plan->page};
    return 0;
}

int job_not_executed(const struct job *job, const char *name)
{
    int error = job->page->exec_errno;
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

void job_signal(const struct job *job, int number)
{
    kill(-job->pid, number);
}

void job_terminate(const struct job *job)
{
    job_signal(job, SIGTERM);
    job_signal(job, SIGCONT);
}

bool job_lives(const struct job *job)
{
    return group_lives(job->pid, job->page->session);
}
