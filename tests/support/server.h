/*
 * A server as a child of the test.
 *
 *     struct server redis;
 *     server_redis(&redis, NULL);            127.0.0.1:redis.port, ready to be used
 *     server_kill(&redis);
 *     server_start(&redis);                  the same port, the same folder
 *
 * or, for any other program:
 *
 *     server_init(&etcd, "etcd");
 *     server_program(&etcd, "etcd", "etcd-server");
 *     server_argument(&etcd, "--listen-client-urls=http://127.0.0.1:@PORT@");
 *     server_argument(&etcd, "--data-dir=@FOLDER@/data");
 *     server_start(&etcd);
 *
 * It has a process group, a folder and up to four ports of its own, and writes into a log whose
 * end is shown when the case fails. It dies with the test, and needs no stop at the end of a case.
 * Everything here fails the case instead of returning an error. Servers are started from the main
 * thread of a process, since they die with the thread that started them. A struct server must
 * not be copied.
 */
#ifndef SNIB_TESTS_SERVER_H
#define SNIB_TESTS_SERVER_H

#include "check.h"

enum { SERVER_PORTS = 4, SERVER_ARGUMENTS = 96, SERVER_VARIABLES = 24, SERVER_TEXT = 8192 };

struct server {
    char name[32];
    int port;                /* the first of `ports` */
    int ports[SERVER_PORTS]; /* @PORT@ (or @PORT0@), @PORT1@, @PORT2@, @PORT3@ */
    char folder[192];        /* @FOLDER@; its working directory */
    char log[224];           /* all it writes to stdout and stderr */
    pid_t pid;               /* also its process group; 0 when it does not run */

    /* May be changed before server_start. */
    int stop_signal;      /* SIGTERM */
    int start_timeout_ms; /* 30000 */
    int stop_timeout_ms;  /* 10000; then SIGKILL */

    /* Private. */
    bool started_before;
    char user[32];
    const char *ready_line;
    bool (*ready)(struct server *, void *);
    void *ready_arg;
    int argument_count;
    int variable_count;
    size_t text_used;
    const char *arguments[SERVER_ARGUMENTS];
    const char *variables[SERVER_VARIABLES];
    char text[SERVER_TEXT];
};

/* Ports, the folder check_tmpdir()/name, an empty log. */
void server_init(struct server *server, const char *name);

/* The executable: a path, or a name that is looked for in PATH and the sbin folders. SKIPs the
 * case when it is not there, and names the package. */
void server_program(struct server *server, const char *program, const char *package);

/* One argument, or one variable as "NAME=value". @PORT@ and @FOLDER@ are filled in at start. */
void server_argument(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void server_variable(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs as this user, who gets the folder; NULL: nobody. Nothing to do unless we are root. */
void server_user(struct server *server, const char *user);

/* When it is ready: when `port` accepts connections (the default), when it has written a line
 * that holds this text, or when the function says so. */
void server_ready_line(struct server *server, const char *text);
void server_ready_when(struct server *server, bool (*ready)(struct server *, void *), void *arg);

/* Returns when it is ready. Also starts a stopped or killed server again, on the same ports. */
void server_start(struct server *server);

/* `stop_signal`, then SIGKILL to the group; returns when it is gone. Nothing to do if it is. */
void server_stop(struct server *server);

/* SIGKILL to the group at once. */
void server_kill(struct server *server);

void server_restart(struct server *server);

/* SIGSTOP and SIGCONT to the group. */
void server_pause(struct server *server);
void server_resume(struct server *server);

/* Redis on a port and on the Unix socket folder/redis.sock, without persistence. `extra`: more
 * arguments, ended by NULL; may be NULL. server_redis does everything; server_redis_prepare comes
 * between server_init and server_start, for those who want to add to it. */
void server_redis(struct server *server, const char *const extra[]);
void server_redis_prepare(struct server *server, const char *const extra[]);

#endif
