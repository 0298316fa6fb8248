/*
 * A lock service over TCP, as small as one can be that is fit for locking: for tests/module/tcp.c.
 *
 * One line per request and reply, words apart by one blank, answered in order:
 *
 *     N TAKE name owner ttl who label    N HELD token ttl age | N BUSY token left who
 *     N RENEW name owner ttl             N HELD token ttl 0 | N LOST
 *     N GIVE name owner                  N FREED | N LOST
 *     N EVICT name token                 N GONE | N LOST
 *     N LIST name | N LIST name *        N SEEN name token left who label since..., N END
 *     N HELLO                            N HELLO
 *
 * N is the client's number of the request. Names, who and label are in hexadecimal digits, "-" for
 * none; times are milliseconds. TAKE by who holds it already is HELD again, with its age and no
 * longer lease. An owner that gave back gets nothing any more: a request of its own that comes late
 * is BUSY. Tokens grow over all names. All of it is forgotten when the server ends.
 */
#ifndef SNIB_TESTS_LOCK_SERVER_H
#define SNIB_TESTS_LOCK_SERVER_H

#include "check.h"

/* In shared memory: the server writes, the test reads. */
struct lock_server {
    int port;
    pid_t pid;
    _Atomic int held; /* locks, by its last look */
    _Atomic int takes, renewals, gives;
};

/* A process of its own, for up to 32 connections at a time; ends with the case. */
struct lock_server *lock_server_start(void);

#endif
