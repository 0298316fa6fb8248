/* A TCP server that sends back what it gets and counts what it sees, for tests of everything
 * that lies between a client and a server. */
#ifndef SNIB_TESTS_ECHO_H
#define SNIB_TESTS_ECHO_H

#include "check.h"

/* In shared memory: the server writes, the test reads. */
struct echo {
    int port;
    pid_t pid;
    _Atomic uint64_t accepted;
    _Atomic uint64_t bytes;  /* received */
    _Atomic uint64_t ends;   /* connections that were closed in order */
    _Atomic uint64_t resets; /* and those that were not */
    _Atomic int64_t last_ns; /* when bytes came last, on CLOCK_BOOTTIME */
};

/* A process of its own, for up to 64 connections at a time; ends with the case. */
struct echo *echo_start(void);

#endif
