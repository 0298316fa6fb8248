/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of 64 threads around one small cache: readers together, writers alone, re-entrancy.
 *
 *     thread_pool [URL]               else SNIB_URL, else the default
 *
 * cache_get takes the lock shared, cache_put exclusively. cache_add does both in one step: it
 * holds the lock exclusively and calls the other two, which enter again because they name the
 * same owner: snib_thread(), the calling thread. Without an owner they would wait for themselves.
 *
 * The cache itself has no mutex and no atomics: the lock is all there is. The threads share one
 * client, and other processes could join in.
 *
 * Left out on purpose: going from shared to exclusive. Two threads that both try would wait for
 * each other, so snib refuses it (SNIB_EDEADLK); take it exclusively from the start.
 */
#include <snib.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 64, ROUNDS = 25, KEYS = 8 };

struct cache {
    snib *client;
    long values[KEYS];
};

struct worker {
    pthread_t thread;
    struct cache *cache;
    unsigned seed;
    long added;
};

static snib_lease *enter(struct cache *cache, int mode)
{
    snib_options options = SNIB_OPTIONS;
    snib_lease *lease;
    snib_error error;

    options.mode = mode;
    options.owner = snib_thread();
    options.wait_ms = 60000;
    if (snib_acquire(&lease, cache->client, "cache", &options, &error) < 0) {
        fprintf(stderr, "%s: %s\n", snib_errname(error.code), error.message);
        exit(1);
    }
    return lease;
}

static long cache_get(struct cache *cache, int key)
{
    snib_lease *lease = enter(cache, SNIB_SHARED);
    long value = cache->values[key];
    snib_release(&lease, NULL);
    return value;
}

static void cache_put(struct cache *cache, int key, long value)
{
    snib_lease *lease = enter(cache, SNIB_EXCLUSIVE);
    cache->values[key] = value;
    snib_release(&lease, NULL);
}

/* Nobody can come between the get and the put. */
static void cache_add(struct cache *cache, int key, long amount)
{
    snib_lease *lease = enter(cache, SNIB_EXCLUSIVE);
    cache_put(cache, key, cache_get(cache, key) + amount);
    snib_release(&lease, NULL);
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int key = (int)((unsigned)rand_r(&worker->seed) % KEYS);
        if (i % 5 == 0) {
            cache_add(worker->cache, key, 1);
            worker->added++;
        } else if (cache_get(worker->cache, key) < 0) {
            exit(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS];
    struct cache cache = {0};
    snib_error error;
    long added = 0, found = 0;

    if (snib_open(&cache.client, argc > 1 ? argv[1] : NULL, &error) < 0) {
        fprintf(stderr, "%s: %s\n", snib_errname(error.code), error.message);
        return 1;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].cache = &cache;
        workers[i].seed = i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "cannot start a thread\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        added += workers[i].added;
    }
    for (int key = 0; key < KEYS; key++) {
        found += cache_get(&cache, key);
    }
    snib_close(cache.client);

    printf("added %ld, found %ld\n", added, found);
    return added == found && added == THREADS * (ROUNDS / 5) ? 0 : 1;
}
