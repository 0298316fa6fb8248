/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user that a server needs for what the URL says: its keys and channels are those of the
 * prefix, its commands those of the layout and of the greeting, and no others.
 */
#include "engines/redis/rights.h"

#include "engines/redis/session.h"

#include <stdio.h>
#include <string.h>

int snib__redis_rights(const struct snib__session *session, char *out, size_t size)
{
    const struct snib__redis *r = snib__redis_of(session);
    const char *user = session->url->user;
    char prefix[2 * SNIB__KEY_MAX], reach[SNIB_RIGHTS_SIZE];
    snib__pattern_escape(prefix, r->settings.prefix);
    r->layout->reach(reach, sizeof reach, prefix, r->database);
    return snprintf(out, size,
                    "ACL SETUSER %s on >PASSWORD resetkeys resetchannels -@all %s %s "
                    "+subscribe +ping +info +client|setname +scan%s%s%s%s",
                    user[0] ? user : "snib", reach,
                    r->by_steps ? r->layout->commands_of_plan : r->layout->commands,
                    strcmp(r->database, "0") != 0 ? " +select" : "",
                    r->settings.quarantine.off ? "" : " +config|get", r->witness ? " +wait" : "",
                    strstr(session->url->scheme, "+cluster")
                        ? " +cluster|slots +cluster|info +asking +ssubscribe +spublish "
                          "+pubsub|shardnumsub"
                        : "");
}
