/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is none: it listens, and says what a test wants it to say.
 */
#ifndef SNIB_TESTS_REDIS_FAKE_H
#define SNIB_TESTS_REDIS_FAKE_H

#include "check.h"
#include "engines/redis/packed.h"
#include "port.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fake;

/* One command came: write what is to be answered. */
typedef void fake_answer(struct fake *, int fd, const redisReply *command);

struct fake {
    int port, listener;
    fake_answer *answer; /* NULL: `greeting` is all it ever says, to the first bytes */
    const char *greeting;
    _Atomic int connections, attempts;
    _Atomic int scripts; /* that have arrived, answered or not */
    pthread_t thread;
};

struct fake_guest {
    struct fake *fake;
    int fd;
};

__attribute__((unused)) static void fake_say(int fd, const char *text)
{
    ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL);
    (void)n; /* whoever has gone does not want it */
}

static const char *fake_word(const redisReply *command, size_t index)
{
    return index < command->elements ? command->element[index]->str : "";
}

__attribute__((unused)) static bool fake_is(const redisReply *command, const char *word)
{
    return strcasecmp(fake_word(command, 0), word) == 0;
}

__attribute__((unused)) static void fake_say_bulk(int fd, const char *text)
{
    char bulk[400];
    snprintf(bulk, sizeof bulk, "$%zu\r\n%s\r\n", strlen(text), text);
    fake_say(fd, bulk);
}

/* What a script answers: all of ours answer bytes. */
__attribute__((unused)) static void fake_say_bytes(int fd, const char *bytes, size_t size)
{
    char bulk[200];
    int n = snprintf(bulk, sizeof bulk, "$%zu\r\n", size);
    CHECK(size < sizeof bulk - 20);
    memcpy(bulk + n, bytes, size);
    memcpy(bulk + (size_t)n + size, "\r\n", 2);
    ssize_t sent = send(fd, bulk, (size_t)n + size + 2, MSG_NOSIGNAL);
    (void)sent;
}

__attribute__((unused)) static void fake_say_held(int fd, uint64_t token, uint64_t left_ms,
                                                  uint64_t now_ms)
{
    char held[25] = "H";
    char *to = snib__pack(held + 1, token, 8);
    to = snib__pack(to, left_ms, 4);
    to = snib__pack(to, 1, 4);
    (void)snib__pack(to, now_ms, 8);
    fake_say_bytes(fd, held, sizeof held);
}

__attribute__((unused)) static void fake_say_gone(int fd)
{
    fake_say_bytes(fd, "G", 1);
}

/* What a real server answers to a greeting; false: it is something else. */
__attribute__((unused)) static bool fake_greets(int fd, const redisReply *command)
{
    if (fake_is(command, "INFO")) {
        fake_say_bulk(fd, "run_id:00112233445566778899aabbccddeeff00112233\r\n"
                          "uptime_in_seconds:999999\r\nrole:master\r\n");
    } else if (fake_is(command, "TIME")) {
        fake_say(fd, "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n");
    } else if (fake_is(command, "CLIENT") || fake_is(command, "AUTH")) {
        fake_say(fd, "+OK\r\n");
    } else {
        return false;
    }
    return true;
}

static void fake_converse(struct fake *fake, int fd)
{
    redisReader *reader = redisReaderCreate();
    char bytes[16384];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        void *command = NULL;
        if (memmem(bytes, (size_t)n, "EVAL", 4)) {
            atomic_fetch_add(&fake->scripts, 1);
        }
        if (!fake->answer) {
            fake_say(fd, fake->greeting);
            continue;
        }
        redisReaderFeed(reader, bytes, (size_t)n);
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
            fake->answer(fake, fd, command);
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
}

static void *fake_serve(void *arg)
{
    struct fake_guest *guest = arg;
    fake_converse(guest->fake, guest->fd);
    close(guest->fd);
    free(guest);
    return NULL;
}

static void *fake_listen(void *arg)
{
    struct fake *fake = arg;
    int fd;
    while ((fd = accept(fake->listener, NULL, NULL)) >= 0) {
        struct fake_guest *guest = malloc(sizeof *guest);
        pthread_t thread;
        *guest = (struct fake_guest){fake, fd};
        atomic_fetch_add(&fake->connections, 1);
        CHECK(pthread_create(&thread, NULL, fake_serve, guest) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

/* On a port of its own. It ends with the case. */
__attribute__((unused)) static void fake_start(struct fake *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int on = 1;
    fake->port = port_claim();
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fake->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address.sin_port = htons((uint16_t)fake->port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fake->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fake->listener, 16) == 0);
    CHECK(pthread_create(&fake->thread, NULL, fake_listen, fake) == 0);
}

#endif
