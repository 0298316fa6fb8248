/* SPDX-License-Identifier: Apache-2.0 */
/* Work that must block: begun, done, abandoned, limited, and joined when the client is closed. */
#include "fake_engine.h"

#include <unistd.h>

/* The argument of a piece of work. */
struct job {
    struct check_flag go; /* else it waits until nobody wants it */
    atomic_bool ran, saw_abandoned;
    atomic_int drops;
    pthread_t thread;
};

static void run(struct snib__work *work, void *arg)
{
    struct job *job = arg;
    job->thread = pthread_self();
    while (!check_flag_is_set(&job->go) && !snib__work_abandoned(work)) {
        check_sleep_ms(1);
    }
    if (snib__work_abandoned(work)) {
        atomic_store(&job->saw_abandoned, true);
        check_sleep_ms(50); /* inside somebody else's library */
    }
    atomic_store(&job->ran, true);
}

static void drop(void *arg)
{
    atomic_fetch_add(&((struct job *)arg)->drops, 1);
}

static struct snib__work *begin(snib *client, struct job *job)
{
    snib__enter(client);
    struct snib__work *work = snib__work_begin(&client->session, run, drop, job);
    snib__leave(client);
    return work;
}

static void end(snib *client, struct snib__work *work)
{
    snib__enter(client);
    snib__work_end(work);
    snib__leave(client);
}

static void wait_done(const struct snib__work *work)
{
    struct pollfd fd = {.fd = snib__work_fd(work), .events = POLLIN};
    CHECK_INT(poll(&fd, 1, check_ms(5000)), ==, 1);
    CHECK(snib__work_done(work));
}

TEST(work_runs_on_a_thread_of_its_own_and_is_dropped_once)
{
    static struct job job;
    snib *client = fake_client("fake://here");
    struct snib__work *work = begin(client, &job);
    CHECK(work != NULL);
    struct pollfd fd = {.fd = snib__work_fd(work), .events = POLLIN};
    CHECK_INT(poll(&fd, 1, 20), ==, 0);
    CHECK(!snib__work_done(work) && !snib__work_abandoned(work));
    check_flag_set(&job.go);
    wait_done(work);
    CHECK(!pthread_equal(job.thread, pthread_self()));
    CHECK_INT(job.drops, ==, 0); /* the argument is ours until the work is ended */
    end(client, work);
    CHECK(job.ran && !job.saw_abandoned);
    CHECK_INT(job.drops, ==, 1);
    snib_close(client);
    CHECK_INT(job.drops, ==, 1);
}

TEST(work_that_is_ended_early_is_abandoned_and_nobody_waits_for_it)
{
    static struct job job, next;
    snib *client = fake_client("fake://here");
    struct snib__work *work = begin(client, &job);
    CHECK(work != NULL);
    int64_t start_ns = check_now_ns();
    end(client, work);
    CHECK_INT((check_now_ns() - start_ns) / SNIB__MS, <, check_ms(40));
    check_flag_set(&next.go);
    for (int i = 0; i < 5000 && atomic_load(&job.drops) == 0; i++) {
        check_sleep_ms(2);
        work = begin(client, &next); /* whoever begins clears away what is done by now */
        CHECK(work != NULL);
        wait_done(work);
        end(client, work);
    }
    CHECK(job.saw_abandoned && job.ran);
    CHECK_INT(job.drops, ==, 1);
    snib_close(client);
    CHECK_INT(job.drops, ==, 1);
}

TEST(a_client_that_is_closed_joins_what_was_abandoned)
{
    static struct job jobs[3];
    snib *client = fake_client("fake://here");
    for (int i = 0; i < 3; i++) {
        struct snib__work *work = begin(client, &jobs[i]);
        CHECK(work != NULL);
        end(client, work);
    }
    snib_close(client);
    for (int i = 0; i < 3; i++) {
        CHECK(jobs[i].saw_abandoned && jobs[i].ran);
        CHECK_INT(jobs[i].drops, ==, 1);
    }
}

TEST(there_are_so_many_works_and_no_more)
{
    static struct job jobs[SNIB__WORK_MOST + 1];
    struct snib__work *works[SNIB__WORK_MOST];
    snib *client = fake_client("fake://here");
    for (int i = 0; i < SNIB__WORK_MOST; i++) {
        works[i] = begin(client, &jobs[i]);
        CHECK(works[i] != NULL);
    }
    CHECK(begin(client, &jobs[SNIB__WORK_MOST]) == NULL);
    CHECK_INT(jobs[SNIB__WORK_MOST].drops, ==, 0); /* not begun, not dropped */
    check_flag_set(&jobs[0].go);
    wait_done(works[0]);
    CHECK(begin(client, &jobs[SNIB__WORK_MOST]) == NULL); /* done, but not ended */
    end(client, works[0]);
    works[0] = begin(client, &jobs[SNIB__WORK_MOST]);
    CHECK(works[0] != NULL);
    for (int i = 0; i < SNIB__WORK_MOST; i++) {
        end(client, works[i]);
    }
    snib_close(client);
    for (int i = 0; i <= SNIB__WORK_MOST; i++) {
        CHECK_INT(jobs[i].drops, ==, 1);
    }
}

static struct snib__work *parents;

static void end_in_child(void *arg)
{
    snib__work_end(parents);
    CHECK(!snib__work_abandoned(parents));
    CHECK_INT(((struct job *)arg)->drops, ==, 0);
}

TEST(work_is_not_ended_in_a_forked_child)
{
    static struct job job;
    snib *client = fake_client("fake://here");
    parents = begin(client, &job);
    CHECK(parents != NULL);
    check_join(check_spawn(end_in_child, &job), 10000);
    CHECK(!snib__work_abandoned(parents));
    end(client, parents);
    snib_close(client);
    CHECK_INT(job.drops, ==, 1);
}
