/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop around a running job.
 *
 *   RUNS --deadline - grace, or the loss is known--> TERMED --the time is up--> KILLED
 *     \-- the command has ended; others of its session live --> TERMED --> KILLED
 *     \-- the guardian was killed --> KILLED
 *
 * Each turn: bury who died, take in what the lock tells, decide, sleep. The loop ends when the
 * command has ended and nobody of the job lives; only then is the lock given back. Once KILL was
 * sent it is sent again and again, since a walk over the descendants may miss those who are just
 * born: descendants.c says why that comes to an end.
 *
 * The page that the guardian reads is moved forward when our own timer fires at deadline - grace
 * and finds that a renewal has moved the deadline: the guardian's instant is later than that, so
 * it always sees the new one first, unless we are dead, stopped or stuck; and then its old
 * instant, which is earlier than need be, is the right one.
 *
 * Once TERM was sent there is no way back: a command that was told to end is not told otherwise
 * because a renewal came through after all.
 */
#include "supervise.h"

#include "clock.h"
#include "command.h"
#include "descendants.h"
#include "say.h"
#include "witness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define JITTER_NS (5 * CLOCK_MS) /* a deadline that differs by less has not moved */
#define RECHECK_MS 5             /* while waiting for a job to die, and twice as long each time */
#define RECHECK_MOST_MS 100
#define LEAVE_NS (100 * CLOCK_MS) /* what a daemon has to leave the session of the command */
#define TERMINAL_MS 200           /* while waiting to be in the foreground */
#define MAX_HOLD_SLACK_NS (100 * CLOCK_MS)
#define PAUSE_FIRST_NS (CLOCK_MS / 5) /* between one KILL and the next */
#define PAUSE_MOST_NS (100 * CLOCK_MS)
#define UNKILLABLE_NS (10000 * CLOCK_MS)
#define REFUSED_NS (200 * CLOCK_MS) /* one key is one line, however many tell us of it */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Is the deadline the end of the maximum hold, and not that of the lease? */
static bool at_max_hold(const struct supervision *s)
{
    int64_t max_ms = s->options->lock.max_hold_ms;
    int64_t end_ns = s->lock->held_since_ns + max_ms * CLOCK_MS;
    return max_ms && s->timeline.deadline_ns > end_ns - MAX_HOLD_SLACK_NS;
}

/* ---- The terminal ----------------------------------------------------------------------- */

void supervise_typing(struct supervision *s)
{
    if (!s->witness) {
        s->witness = witness_start(&s->guardian->page->witness, s->signals);
    }
}

static void go_on(struct supervision *s)
{
    s->job->stopped = 0;
    job_signal(s->job, SIGCONT);
}

static bool lend_terminal(struct supervision *s)
{
    if (!terminal_lend(s->terminal, s->job->pid)) {
        return false;
    }
    supervise_typing(s);
    go_on(s);
    return true;
}

/* Who was stopped goes on, whether we have seen it stop or not. */
static void refuse_to_stop(struct supervision *s)
{
    int64_t now = clock_now_ns();
    if (now - s->refused_ns > REFUSED_NS) {
        say("not stopped: a stopped command would hold the lock unseen");
        s->refused_ns = now;
    }
    go_on(s);
}

static void on_stopped(struct supervision *s, int by)
{
    s->job->stopped = by;
    if (by == SIGTSTP) {
        refuse_to_stop(s);
    } else if (by == SIGTTIN || by == SIGTTOU) {
        if (!lend_terminal(s)) {
            say("the command wants the terminal: bring it to the foreground");
            s->wants_terminal = true;
        }
    } else if (s->terminal->lent_to) { /* somebody sits there and wonders */
        say("the command was stopped by %s; the lock stays held", signals_name(by));
    } else {
        tell("the command was stopped by %s; the lock stays held", signals_name(by));
    }
}

/* ---- Who died --------------------------------------------------------------------------- */

static void on_ended(struct supervision *s)
{
    int64_t now = clock_now_ns();
    int verdict = atomic_load(&s->guardian->page->verdict);
    bool early = s->lock->lost_early;
    lock_hear(s->lock);
    s->lost_in_time |= early;
    s->late = ((s->lock->lost && !s->lock->lost_early) || now >= s->lock->deadline_ns) &&
              verdict == VERDICT_NONE;
    s->max_hold = at_max_hold(s);
    if (s->stage == STAGE_TERMED && verdict == VERDICT_KILLED) {
        tell("KILL to the command, by the guardian");
    }
    s->job->ended = true;
    if (waitpid(s->job->pid, &s->job->status, 0) < 0) {
        s->job->status = 0;
    }
    if (s->witness) {
        s->typed = witness_end(s->witness);
        s->witness = 0;
    }
    s->recheck_ms = RECHECK_MS;
    s->tidy_ns = now + LEAVE_NS;
    if (s->stage == STAGE_TERMED) {
        s->kill_ns = least(s->kill_ns, least(now + s->timeline.grace_ns, s->timeline.kill_ns));
    }
}

/* Everybody who died, also those we inherited. */
static void bury(struct supervision *s)
{
    for (;;) {
        siginfo_t info = {0};
        int rc = waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
        s->childless = rc < 0 && errno == ECHILD;
        if (rc < 0 || info.si_pid == 0) {
            return;
        }
        bool stopped = info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
        if (info.si_pid == s->job->pid && !stopped && !s->job->ended) {
            on_ended(s);
            continue;
        }
        siginfo_t seen;
        (void)waitid(P_PID, (id_t)info.si_pid, &seen, stopped ? WSTOPPED | WNOHANG : WEXITED);
        if (stopped && info.si_pid == s->job->pid) {
            on_stopped(s, info.si_status);
        } else if (!stopped && info.si_pid == s->witness) {
            s->witness = 0;
        }
    }
}

/* ---- Decide ----------------------------------------------------------------------------- */

static void stop(struct supervision *s, enum stop_reason reason, int64_t kill_ns)
{
    char span[SPAN_SIZE];
    bool kills = s->options->on_lost == ON_LOST_KILL;
    s->stage = STAGE_TERMED;
    s->reason = reason;
    s->kill_ns = kills ? kill_ns : CLOCK_NEVER;
    s->job->whole = true;
    job_terminate(s->job);
    if (kills) {
        int64_t left_ms = (kill_ns - clock_now_ns()) / CLOCK_MS;
        tell("TERM to the command; KILL in %s", span_text(span, left_ms > 0 ? left_ms : 0));
        guardian_set(s->guardian, kill_ns + s->timeline.margin_ns / 4);
    } else {
        tell("TERM to the command");
    }
}

/* The command has ended, others of its session live. A daemon that is just leaving it has had its
 * time: the rest is stopped. */
static void tidy_up(struct supervision *s, int64_t now)
{
    char who[DESCENDANTS_TEXT];
    say("the command has ended; stopping what it left behind: %s", job_text(who, s->job));
    job_terminate(s->job);
    s->stage = STAGE_TERMED;
    s->kill_ns = least(now + s->timeline.grace_ns, s->timeline.kill_ns);
}

static void start_killing(struct supervision *s, int64_t now)
{
    s->stage = STAGE_KILLED;
    s->kill_ns = now;
    s->pause_ns = PAUSE_FIRST_NS;
    s->complain_ns = now + UNKILLABLE_NS;
    s->job->spare_until_ns = least(now + SPARE_NS, s->timeline.guard_ns);
    tell("KILL to the command");
}

static void kill_again(struct supervision *s, int64_t now)
{
    char who[DESCENDANTS_TEXT];
    job_kill(s->job);
    s->kill_ns = now + s->pause_ns;
    s->pause_ns = least(s->pause_ns * 2, PAUSE_MOST_NS);
    if (now >= s->complain_ns) {
        s->complain_ns = CLOCK_NEVER;
        say("cannot be killed: %s; %s until it ends", job_text(who, s->job),
            s->lock->lost ? "the lock is lost, but waiting" : "the lock stays held");
    }
}

/* The guardian was killed, and with it whoever wanted this job done. */
static void on_orphaned(struct supervision *s)
{
    if (s->stage != STAGE_KILLED) {
        start_killing(s, clock_now_ns());
    }
    s->reason = STOP_ORPHANED;
    s->job->whole = true;
}

/* Has the deadline moved? Then everybody must know. */
static void follow_lease(struct supervision *s)
{
    int64_t deadline_ns = s->lock->deadline_ns, known_ns = s->timeline.deadline_ns;
    if (deadline_ns > known_ns - JITTER_NS && deadline_ns - JITTER_NS < known_ns) {
        return;
    }
    timeline_move(&s->timeline, deadline_ns);
    if (s->options->on_lost == ON_LOST_KILL) {
        guardian_set(s->guardian, s->timeline.guard_ns);
    }
}

static void decide_while_it_runs(struct supervision *s, int64_t now)
{
    s->lost_in_time |= s->lock->lost_early;
    if (!s->lock->lost) {
        follow_lease(s);
    }
    if (s->options->on_lost == ON_LOST_IGNORE) {
        return;
    }
    if (s->lock->lost_early) {
        stop(s, STOP_LOST, least(now + timeline_short_grace_ns(&s->timeline), s->timeline.kill_ns));
    } else if (now >= s->timeline.term_ns) {
        stop(s, STOP_DEADLINE, s->timeline.kill_ns);
    }
}

static void decide(struct supervision *s)
{
    int64_t now = clock_now_ns();
    if (s->listen_ns <= now) {
        s->listen_ns = CLOCK_NEVER;
        lock_listen(s->lock);
    }
    lock_hear(s->lock);
    if (s->stage == STAGE_RUNS && !s->job->ended) {
        decide_while_it_runs(s, now);
    } else if (s->stage == STAGE_RUNS && now >= s->tidy_ns) {
        tidy_up(s, now);
    }
    if (s->stage == STAGE_TERMED && now >= s->kill_ns) {
        start_killing(s, now);
    }
    if (s->stage == STAGE_KILLED && now >= s->kill_ns) {
        kill_again(s, now);
    }
}

/* ---- Sleep and listen ------------------------------------------------------------------- */

/* When to decide again; with --on-lost ignore only to know where the deadline is. */
static int64_t next_ns(const struct supervision *s)
{
    int64_t next = s->listen_ns;
    int64_t now = clock_now_ns();
    if (s->stage != STAGE_RUNS) {
        return least(next, s->kill_ns);
    }
    if (s->job->ended) {
        return least(next, s->tidy_ns);
    }
    if (s->options->on_lost != ON_LOST_IGNORE || s->timeline.term_ns > now) {
        return least(next, s->timeline.term_ns);
    }
    return s->timeline.deadline_ns > now ? least(next, s->timeline.deadline_ns) : next;
}

/* Set the timer. False: there is none to be had, look often instead. */
static bool arm(struct supervision *s)
{
    int64_t next = next_ns(s);
    if (s->timer_fd < 0 && next != CLOCK_NEVER) {
        s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    }
    if (s->timer_fd >= 0) {
        clock_arm(s->timer_fd, next);
    }
    return s->timer_fd >= 0 || next == CLOCK_NEVER;
}

static void forward(struct supervision *s, int number)
{
    switch (number) {
    case SIGCHLD:
    case SIGPIPE:
    case SIGTTIN:
    case SIGTTOU:
        break;
    case SIGTSTP:
        refuse_to_stop(s);
        break;
    case SIGCONT: /* perhaps we were brought to the foreground */
        if (terminal_lend_again(s->terminal, s->job->pid)) {
            supervise_typing(s);
        }
        job_signal(s->job, number);
        break;
    default:
        if (number == SIGNAL_ORPHANED) {
            on_orphaned(s);
            break;
        }
        if (signals_ends(number)) {
            tell("%s passed on to the command", signals_name(number));
        }
        job_signal(s->job, number);
        break;
    }
}

static void sleep_until_something(struct supervision *s)
{
    struct pollfd fds[] = {{.fd = s->signals->fd, .events = POLLIN},
                           {.fd = s->lock->lost ? -1 : lock_fd(s->lock), .events = POLLIN},
                           {.fd = -1, .events = POLLIN}};
    int timeout_ms = s->job->ended ? s->recheck_ms : s->wants_terminal ? TERMINAL_MS : -1;
    if (!arm(s)) {
        timeout_ms = RECHECK_MS;
    }
    s->recheck_ms = s->recheck_ms * 2 < RECHECK_MOST_MS ? s->recheck_ms * 2 : RECHECK_MOST_MS;
    fds[2].fd = s->timer_fd;
    (void)poll(fds, 3, timeout_ms);
    for (int number; (number = signals_next(s->signals, NULL)) != 0;) {
        forward(s, number);
    }
    if (s->wants_terminal && lend_terminal(s)) {
        s->wants_terminal = false;
    }
}

/* The proof is that there are no children. At a normal end those in other sessions may stay. */
static bool is_over(const struct supervision *s)
{
    return s->job->ended && (s->childless || (!s->job->whole && !job_lives(s->job)));
}

void supervise(struct supervision *s)
{
    for (;;) {
        bury(s);
        if (is_over(s)) {
            break;
        }
        decide(s);
        sleep_until_something(s);
    }
    if (s->timer_fd >= 0) {
        close(s->timer_fd);
    }
}

/* ---- What came of it -------------------------------------------------------------------- */

static int own_status(const struct job *job)
{
    return WIFSIGNALED(job->status) ? STATUS_SIGNAL + WTERMSIG(job->status)
                                    : WEXITSTATUS(job->status);
}

int supervise_interrupt(const struct supervision *s)
{
    int number = WIFSIGNALED(s->job->status) ? WTERMSIG(s->job->status) : 0;
    bool typed = !s->terminal->lent_to || s->typed == number;
    return (number == SIGINT || number == SIGQUIT) && typed ? number : 0;
}

/* What came of the command, in a sentence. */
static const char *fate(const struct supervision *s)
{
    if (s->reason == STOP_NONE) {
        return "was left to end, as asked";
    }
    return s->options->on_lost == ON_LOST_TERM ? "was told to end, and has ended" : "was stopped";
}

/* The lock is known not to have been ours all the time. */
static int lost(const struct supervision *s, const char *name)
{
    if (s->lost_in_time) {
        return fail(STATUS_LOST, "lock '%s' was lost while the command ran: %s; the command %s",
                    name, s->lock->why, fate(s));
    }
    char span[SPAN_SIZE];
    return fail(STATUS_LOST, "lock '%s': the maximum hold of %s is over; the command %s", name,
                span_text(span, s->options->lock.max_hold_ms), fate(s));
}

int supervise_status(const struct supervision *s, int released)
{
    const char *name = s->lock->lost_name ? s->lock->lost_name : s->options->names[0];
    bool by_guardian =
        atomic_load(&s->guardian->page->verdict) == VERDICT_KILLED && WIFSIGNALED(s->job->status);
    bool stopped = s->reason == STOP_DEADLINE || by_guardian;
    if (s->lost_in_time || (s->max_hold && (s->late || stopped))) {
        return lost(s, name);
    }
    if (s->late) {
        return fail(STATUS_UNKNOWN,
                    "the command ended after the lease of lock '%s' had run out: "
                    "whether it was ours until then is unknown",
                    name);
    }
    if (stopped) {
        return fail(STATUS_LOST, "lock '%s': %s; the command was stopped before the lease ran out",
                    name,
                    s->reason == STOP_DEADLINE ? "the engine did not answer"
                                               : "snib itself was stopped or stuck");
    }
    if (released == SNIB_ELOST || s->lock->lost_early) {
        return fail(STATUS_UNKNOWN,
                    "lock '%s' was no longer ours after the command: "
                    "whether it was until the command ended is unknown",
                    name);
    }
    return own_status(s->job);
}
