/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A critical section whose token goes along with every write.
 *
 *     critical_section [URL]          else SNIB_URL, else the default
 *
 * Three processes add to one ledger under the lock "ledger". The ledger remembers the largest
 * token it has seen and refuses smaller ones: so even a holder that was asleep while its lock
 * went to somebody else cannot write late. At the end this program plays that holder.
 *
 * Left out on purpose: a real ledger. Whatever stores your data must compare the token and write
 * in one step, as ledger_add does under its own mutex; in SQL that is one UPDATE ... WHERE.
 */
#include <snib.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3, ROUNDS = 50 };

/* ---- The resource: knows nothing of locks, only of tokens ------------------------------- */

struct ledger {
    pthread_mutex_t mutex;
    uint64_t largest_token;
    long total;
    int refused;
};

static struct ledger *ledger_open(void)
{
    pthread_mutexattr_t between_processes;
    struct ledger *ledger =
        mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ledger == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    pthread_mutexattr_init(&between_processes);
    pthread_mutexattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&ledger->mutex, &between_processes);
    pthread_mutexattr_destroy(&between_processes);
    return ledger;
}

/* 0, or -1 when somebody with a larger token has been here. */
static int ledger_add(struct ledger *ledger, uint64_t token, long amount)
{
    int answer = -1;
    pthread_mutex_lock(&ledger->mutex);
    if (token >= ledger->largest_token) {
        ledger->largest_token = token;
        ledger->total += amount;
        answer = 0;
    } else {
        ledger->refused++;
    }
    pthread_mutex_unlock(&ledger->mutex);
    return answer;
}

/* ---- The critical section --------------------------------------------------------------- */

static _Noreturn void give_up(const snib_error *error)
{
    fprintf(stderr, "%s: %s\n", snib_errname(error->code), error->message);
    exit(1);
}

static void add_under_lock(snib *client, struct ledger *ledger)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;

    options.wait_ms = 30000;
    options.label = "adding";
    if (snib_acquire(&lease, client, "ledger", &options, &error) < 0) {
        give_up(&error);
    }
    if (ledger_add(ledger, snib_token(lease), 1) < 0) {
        fprintf(stderr, "the ledger has seen a later owner\n");
    }
    if (snib_release(&lease, &error) < 0) {
        fprintf(stderr, "news on release: %s\n", error.message);
    }
}

/* Each process opens a client of its own: handles do not survive fork. */
static void work(const char *url, struct ledger *ledger)
{
    snib *client;
    snib_error error;

    if (snib_open(&client, url, &error) < 0) {
        give_up(&error);
    }
    for (int i = 0; i < ROUNDS; i++) {
        add_under_lock(client, ledger);
    }
    snib_close(client);
}

/* A holder that writes after it has given the lock away, or lost it: the token tells. */
static void write_late(const char *url, struct ledger *ledger)
{
    snib *client;
    snib_lease *lease;
    snib_error error;

    if (snib_open(&client, url, &error) < 0 ||
        snib_acquire(&lease, client, "ledger", NULL, &error) < 0) {
        give_up(&error);
    }
    uint64_t old_token = snib_token(lease);
    snib_release(&lease, NULL);
    add_under_lock(client, ledger); /* somebody else was here */
    if (ledger_add(ledger, old_token, 1000000) == 0) {
        fprintf(stderr, "the ledger took a late write\n");
        exit(1);
    }
    snib_close(client);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    struct ledger *ledger = ledger_open();

    for (int i = 0; i < WORKERS; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 1;
        }
        if (pid == 0) {
            work(url, ledger);
            exit(0);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        int status;
        if (wait(&status) < 0 || status != 0) {
            fprintf(stderr, "a worker failed\n");
            return 1;
        }
    }
    write_late(url, ledger);

    printf("total %ld, refused %d\n", ledger->total, ledger->refused);
    return ledger->total == WORKERS * ROUNDS + 1 && ledger->refused == 1 ? 0 : 1;
}
