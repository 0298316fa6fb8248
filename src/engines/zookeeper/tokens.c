/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of readers.
 *
 * A reader has the token of the last writer, which has left it in the lock's node in the same
 * transaction in which it removed its own. If somebody was there since and is gone without a word
 * (the numbers have a gap: a writer that crashed, a client of another library), the reader draws a
 * new one. It writes down token and its own number before it is told that it holds:
 * so all readers at a time find one unbroken row, and the same token. The write carries the version
 * that was read: of two readers at once, one reads again.
 */
#include "engines/zookeeper/tokens.h"

#include "engines/zookeeper/asks.h"

void snib__contender_record(struct snib__contender *c, struct snib__zk_answer *answer)
{
    struct snib__zk *z = c->zk;
    struct snib__zk_text data;
    struct snib__zk_stat stat;
    struct snib__zk_record record;
    char text[SNIB__ZK_RECORD_SIZE + 1];
    if (c->standing != SNIB__ZK_FIRST || c->aim != SNIB__ZK_HOLD || c->token) {
        return;
    }
    if (answer->error != SNIB__ZK_OK || !snib__zk_get_data(&answer->body, &data, &stat)) {
        c->standing = SNIB__ZK_UNPLACED;
        return;
    }
    bool known = snib__zk_record_read(&record, data);
    bool row = known && record.sequence + 1 >= c->first_reader;
    if (known && record.sequence >= c->sequence) {
        c->token = record.token;
    } else if (z->no_records || (!known && data.size > 0)) {
        c->token = c->created; /* the node has other uses */
    } else {
        c->drawn.token = row ? record.token : c->created;
        c->drawn.sequence = c->sequence;
        snib__zk_record_write(&c->drawn, text);
        snib__contender_asked(
            c, snib__zk_ask_set(&z->at, SNIB__ZK_ASK_DRAW, c, c->lock, text, stat.version));
    }
}

void snib__contender_draw(struct snib__contender *c, const struct snib__zk_answer *answer)
{
    if (c->standing != SNIB__ZK_FIRST) {
        return;
    }
    if (answer->error == SNIB__ZK_OK) {
        c->token = c->drawn.token;
    } else if (answer->error != SNIB__ZK_BAD_VERSION) {
        c->zk->no_records = true;
        c->token = c->created;
    }
}
