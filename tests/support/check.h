/*
 * The test harness: cases, assertions, helper processes.
 *
 * A test program is a set of cases
 *
 *     TEST(a_late_release_spares_the_new_owner) { ... CHECK_INT(rc, ==, 0); ... }
 *
 * and is linked with the support library, which brings main(). Every case runs in a process and
 * session of its own, so a crash, a time-out or a fork inside of one cannot disturb the next.
 *
 *     prog                      runs all cases
 *     prog NAME...              runs those
 *     prog --list               names them, one per line
 *     prog --KEY VALUE ...      check_option("KEY") answers VALUE
 *     prog ... -- ARGUMENT...   check_args() answers the rest
 *
 * A case ends well when its function returns, every child process was joined, nothing it started
 * is left running, and the process exits with status 0 (so the leak and race checkers have their
 * word). Time limits: 30 s unless TEST_LIMIT says otherwise.
 *
 * Environment: SNIB_TEST_SLOW=N multiplies every limit and every time-out given to the functions
 * below; CI=true turns a skip into a failure.
 *
 * Assertions work in the case, in its threads and in its helper processes: each prints where and
 * what, and ends the process it is in at once. There is no "continue after failure".
 */
#ifndef SNIB_TESTS_CHECK_H
#define SNIB_TESTS_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* ---- Cases ------------------------------------------------------------------------------ */

#define CHECK_DEFAULT_LIMIT_SECONDS 30

struct check_case {
    const char *name;
    void (*run)(void);
    bool (*applies)(void); /* NULL: always. False: neither listed nor run. */
    int limit_seconds;
    struct check_case *next;
};

void check_register(struct check_case *one);

/* The general form. `predicate` sees check_option(); it is for cases that make no sense for the
 * thing under test (a shared lock on an engine without them), not for a missing server: that is
 * SKIP, which CI does not accept. */
#define TEST_CASE(test_name, seconds, predicate)                                                   \
    static void test_name(void);                                                                   \
    __attribute__((constructor)) static void test_name##_register(void)                            \
    {                                                                                              \
        static struct check_case one = {                                                           \
            .name = #test_name,                                                                    \
            .run = test_name,                                                                      \
            .applies = (predicate),                                                                \
            .limit_seconds = (seconds),                                                            \
        };                                                                                         \
        check_register(&one);                                                                      \
    }                                                                                              \
    static void test_name(void)

#define TEST(test_name) TEST_CASE(test_name, CHECK_DEFAULT_LIMIT_SECONDS, NULL)
#define TEST_LIMIT(test_name, seconds) TEST_CASE(test_name, seconds, NULL)
#define TEST_WHEN(test_name, predicate) TEST_CASE(test_name, CHECK_DEFAULT_LIMIT_SECONDS, predicate)

/* NULL when the option was not given. */
const char *check_option(const char *key);

/* The arguments after `--`, ended by NULL. */
const char *const *check_args(void);

/* ---- Assertions ------------------------------------------------------------------------- */

_Noreturn void check_fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void check_skip_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_str_at(const char *file, int line, const char *what, const char *a, const char *b);

#define FAIL(...) check_fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) check_skip_at(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_fail_at(__FILE__, __LINE__, "CHECK(%s)", #condition);                            \
        }                                                                                          \
    } while (0)

#define CHECK_INT(a, relation, b)                                                                  \
    do {                                                                                           \
        long long check_left = (long long)(a);                                                     \
        long long check_right = (long long)(b);                                                    \
        if (!(check_left relation check_right)) {                                                  \
            check_fail_at(__FILE__, __LINE__, "%s %s %s, but the values are %lld and %lld", #a,    \
                          #relation, #b, check_left, check_right);                                 \
        }                                                                                          \
    } while (0)

/* For tokens and other values that may use all 64 bits. */
#define CHECK_UINT(a, relation, b)                                                                 \
    do {                                                                                           \
        unsigned long long check_left = (unsigned long long)(a);                                   \
        unsigned long long check_right = (unsigned long long)(b);                                  \
        if (!(check_left relation check_right)) {                                                  \
            check_fail_at(__FILE__, __LINE__, "%s %s %s, but the values are %llu and %llu", #a,    \
                          #relation, #b, check_left, check_right);                                 \
        }                                                                                          \
    } while (0)

#define CHECK_STR(a, b) check_str_at(__FILE__, __LINE__, #a " is " #b, (a), (b))

/* `message` is what the failed call said: a const char *, may be NULL. */
#define CHECK_OK(rc, message)                                                                      \
    do {                                                                                           \
        long long check_status = (long long)(rc);                                                  \
        if (check_status != 0) {                                                                   \
            const char *check_said = (message);                                                    \
            check_fail_at(__FILE__, __LINE__, "%s answers %lld: %s", #rc, check_status,            \
                          check_said ? check_said : "(no message)");                               \
        }                                                                                          \
    } while (0)

/* ---- Surroundings ----------------------------------------------------------------------- */

/* A folder of this case alone, removed with all its contents when the case is over, however it
 * ends. Mode 0711, so that a server without privileges reaches its own folder below. */
const char *check_tmpdir(void);

/* Shows the last lines of this file when the case fails. */
void check_show_on_failure(const char *label, const char *path);

/* `ms` times SNIB_TEST_SLOW. */
int check_ms(int ms);

/* CLOCK_BOOTTIME, the clock of the lock's own deadlines. */
int64_t check_now_ns(void);

void check_sleep_ms(int ms);

/* Asks every millisecond or so until the answer is true; false when the time is over. */
bool check_until(bool (*condition)(void *), void *arg, int timeout_ms);

/* Of this process. The thread sanitizer runs a thread of its own: compare, do not count. */
int check_thread_count(void);
int check_fd_count(void);

/* ---- Helper processes ------------------------------------------------------------------- */

/* Forks; the child runs fn(arg) and exits with 0. It is killed when the case ends early. Under
 * the thread sanitizer, spawn before the case starts threads if the helper starts some. */
pid_t check_spawn(void (*fn)(void *), void *arg);

/* Waits for a child of this process to exit with status 0; anything else fails the case. */
#define check_join(pid, timeout_ms) check_join_at(__FILE__, __LINE__, (pid), (timeout_ms))
void check_join_at(const char *file, int line, pid_t pid, int timeout_ms);

/* Waits for any end of a child and answers the status as waitpid(2) gives it; -1: still alive. */
int check_wait(pid_t pid, int timeout_ms);

/* SIGKILL; returns when the process is dead, and reaped if it is a child of this one. */
void check_kill(pid_t pid);

/* SIGSTOP and SIGCONT; return when all threads have stopped, or run again. */
void check_stop(pid_t pid);
void check_cont(pid_t pid);

/* False for a zombie. */
bool check_alive(pid_t pid);

/* A child that needs no join: killed with its group and reaped when the case ends. */
void check_manage(pid_t pid);
void check_unmanage(pid_t pid);

/* ---- Between processes ------------------------------------------------------------------ */

/* Zeroed memory shared with all processes forked later; lives as long as the case. */
void *check_shared(size_t size);

/* A one-time event in shared memory. Zeroed memory is a flag that is not set. */
struct check_flag {
    _Atomic uint32_t set;
};

void check_flag_set(struct check_flag *flag);
bool check_flag_is_set(struct check_flag *flag);

/* Fails the case when the time is over. */
#define check_flag_wait(flag, timeout_ms)                                                          \
    check_flag_wait_at(__FILE__, __LINE__, (flag), (timeout_ms))
void check_flag_wait_at(const char *file, int line, struct check_flag *flag, int timeout_ms);

/* Holds back `count` processes or threads until all are there; usable again and again. Zeroed
 * memory is a barrier where nobody waits. */
struct check_barrier {
    _Atomic uint32_t arrived;
    _Atomic uint32_t round;
};

#define check_barrier_wait(barrier, count, timeout_ms)                                             \
    check_barrier_wait_at(__FILE__, __LINE__, (barrier), (count), (timeout_ms))
void check_barrier_wait_at(const char *file, int line, struct check_barrier *barrier,
                           uint32_t count, int timeout_ms);

#endif
