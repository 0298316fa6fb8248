/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The greeting of a connection.
 *
 * It travels in front of the first request, in the same write, so it costs no round trip: replies
 * come in order, and what the first request was granted counts only if the greeting was answered
 * well. With a password or another database than 0, though, nothing but the greeting leaves before
 * both were accepted: whatever ran before would have run as another user, or elsewhere. There are
 * servers that wait for ever, or hang up, when a long command comes before they have let us in.
 *
 *   AUTH or SELECT refused     nothing else was sent, and nothing is
 *   no AUTH, and one wanted    the same: whatever was sent is refused
 *   CLIENT SETNAME refused     goes on: a name is for people
 *   INFO denied                goes on; what was not seen is told to the first holder
 *   INFO, TIME failed          nothing is known of this server, and nothing it grants counts
 *
 * "Denied" is only what we may not ask or what the server does not know. A server that is busy or
 * loading says nothing about itself.
 */
#include "engines/redis/greeting.h"

#include <stdio.h>
#include <string.h>

enum kind { TIME = -1, FSYNC = -2, INFO = -3, SELECT = -4, SETNAME = -5, AUTH = -6 };

static void ask(struct snib__connection *c, enum kind kind, const struct snib__command *command)
{
    struct snib__redis_call call = {.kind = kind, .sent = snib__now()};
    call.due_ns = SNIB__NEVER; /* silence ends the connection, and with it this */
    (void)snib__connection_ask(c, &call, command);
}

static void send_credentials(struct snib__greeting *g, struct snib__connection *c,
                             const struct snib__credentials *who)
{
    struct snib__command command;
    if (who->password[0]) {
        if (who->user[0]) {
            snib__command_words(&command, "AUTH", who->user, who->password, (char *)NULL);
        } else {
            snib__command_words(&command, "AUTH", who->password, (char *)NULL);
        }
        ask(c, AUTH, &command);
        g->unanswered++;
    }
    snib__command_words(&command, "CLIENT", "SETNAME", who->name, (char *)NULL);
    ask(c, SETNAME, &command);
    if (strcmp(who->database, "0") != 0) {
        snib__command_words(&command, "SELECT", who->database, (char *)NULL);
        ask(c, SELECT, &command);
        g->unanswered++;
    }
}

static void ask_info(struct snib__connection *c, const char *section)
{
    struct snib__command command;
    snib__command_words(&command, "INFO", section, (char *)NULL);
    ask(c, INFO, &command);
}

void snib__greeting_send(struct snib__greeting *g, struct snib__connection *c,
                         const struct snib__credentials *who, enum snib__curiosity curiosity)
{
    struct snib__command command;
    *g = (struct snib__greeting){.fitness = {.uptime_s = -1}};
    send_credentials(g, c, who);
    ask_info(c, "server");
    if (curiosity >= SNIB__GREET_FITNESS) {
        ask_info(c, "memory");
        ask_info(c, "persistence");
        ask_info(c, "replication");
    }
    if (curiosity >= SNIB__GREET_FSYNC) {
        snib__command_words(&command, "CONFIG", "GET", "appendfsync", (char *)NULL);
        ask(c, FSYNC, &command);
    }
    snib__command_words(&command, "TIME", (char *)NULL);
    ask(c, TIME, &command);
    if (g->unanswered > 0) {
        snib__connection_shut_gate(c);
    }
}

/* ---- Replies ---------------------------------------------------------------------------- */

/* What the server says to AUTH is never repeated: one that does not know the command quotes what it
 * was sent. */
static const char *refusal_of_auth(const struct snib__error *error, const char *text)
{
    if (strcmp(error->word, "WRONGPASS") == 0 || strstr(text, "invalid password")) {
        return "WRONGPASS: wrong user or password, or the user is disabled";
    }
    if (strstr(text, "without any password")) {
        return "AUTH was sent to a server without any password: leave it out of the URL";
    }
    if (strstr(text, "unknown command")) {
        return "unknown command 'AUTH': this server has no passwords";
    }
    return error->kind == SNIB__ERROR_LATER ? "the server is too busy to let anybody in"
                                            : "the server refused AUTH";
}

static void on_credential(struct snib__greeting *g, struct snib__connection *c, enum kind kind,
                          const struct snib__reply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        g->error = snib__error_read(reply->text);
        const char *why = kind == AUTH ? refusal_of_auth(&g->error, reply->text) : reply->text;
        snib__connection_end(c, SNIB__LOSS_DENIED, 0, why);
    } else if (--g->unanswered == 0) {
        snib__connection_open_gate(c);
    }
}

static void note_failure(struct snib__greeting *g, const char *text)
{
    if (!g->failed[0]) {
        snprintf(g->failed, sizeof g->failed, "%.119s", text);
    }
}

static void on_info(struct snib__greeting *g, const struct snib__reply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR) {
        snib__fitness_info(&g->fitness, reply->text);
    } else if (snib__error_read(reply->text).kind == SNIB__ERROR_DENIED) {
        g->denied++;
    } else {
        note_failure(g, reply->text);
    }
}

/* Nothing was asked to let us in, and nothing will be done for us. */
static bool wants_password(const struct snib__reply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->text, "NOAUTH", 6) == 0;
}

void snib__greeting_reply(struct snib__greeting *g, struct snib__connection *c,
                          const struct snib__redis_call *call, const struct snib__reply *reply)
{
    if (wants_password(reply)) {
        g->error = snib__error_read(reply->text);
        snib__connection_end(
            c, SNIB__LOSS_DENIED, 0,
            "the server wants a password: :PASSWORD@ before the host, or passfile=");
        return;
    }
    switch ((enum kind)call->kind) {
    case AUTH:
    case SELECT:
        on_credential(g, c, (enum kind)call->kind, reply);
        break;
    case SETNAME:
        break;
    case INFO:
        on_info(g, reply);
        break;
    case FSYNC:
        snib__fitness_setting(&g->fitness, snib__reply_text(reply, 0), snib__reply_text(reply, 1));
        break;
    case TIME:
        g->done = true;
        if (reply->type == REDIS_REPLY_ARRAY) {
            g->timed = call->sent;
            g->server_ms =
                snib__reply_number(reply, 0) * 1000 + snib__reply_number(reply, 1) / 1000;
        } else {
            note_failure(g, reply->text);
        }
        break;
    }
}
