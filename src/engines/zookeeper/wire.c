/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZooKeeper's protocol, as bytes.
 *
 * Numbers are big-endian, texts and byte arrays have their length in front (-1: none), lists their
 * count, and a frame its size. Requests are made to measure: the size is known before the first
 * byte is written. Answers are read with one eye on what is left; whoever reads checks once, at the
 * end.
 */
#include "engines/zookeeper/wire.h"

#include <string.h>

/* ---- Writing ------------------------------------------------------------------------------ */

static void put_byte(struct snib__buffer *b, unsigned value)
{
    b->bytes[b->to++] = (char)value;
}

static void put_int(struct snib__buffer *b, int32_t value)
{
    uint32_t bits = (uint32_t)value;
    for (int shift = 24; shift >= 0; shift -= 8) {
        put_byte(b, bits >> shift & 0xff);
    }
}

static void put_long(struct snib__buffer *b, int64_t value)
{
    put_int(b, (int32_t)((uint64_t)value >> 32));
    put_int(b, (int32_t)((uint64_t)value & 0xffffffff));
}

static void put_raw(struct snib__buffer *b, const void *bytes, size_t size)
{
    memcpy(b->bytes + b->to, bytes, size);
    b->to += size;
}

static void put_bytes(struct snib__buffer *b, const void *bytes, size_t size)
{
    put_int(b, (int32_t)size);
    put_raw(b, bytes, size);
}

static void put_text(struct snib__buffer *b, const char *text)
{
    put_bytes(b, text, strlen(text));
}

static size_t text_size(const char *text)
{
    return 4 + strlen(text);
}

/* A frame with so many bytes of body behind the header. */
static bool begin(struct snib__buffer *b, size_t body, int32_t xid, enum snib__zk_op op)
{
    if (!snib__buffer_reserve(b, 12 + body)) {
        return false;
    }
    put_int(b, (int32_t)(8 + body));
    put_int(b, xid);
    put_int(b, (int32_t)op);
    return true;
}

bool snib__zk_put_hello(struct snib__buffer *b, const struct snib__zk_hello *hello)
{
    enum { BODY = 4 + 8 + 4 + 8 + 4 + SNIB__ZK_PASSWORD + 1 };
    if (!snib__buffer_reserve(b, 4 + BODY)) {
        return false;
    }
    put_int(b, BODY);
    put_int(b, 0); /* the protocol's version */
    put_long(b, hello->last_seen);
    put_int(b, hello->timeout_ms);
    put_long(b, hello->session);
    put_bytes(b, hello->password, SNIB__ZK_PASSWORD);
    put_byte(b, 0); /* a server that can only be read from is of no use */
    return true;
}

bool snib__zk_put_auth(struct snib__buffer *b, const char *scheme, const char *credentials)
{
    if (!begin(b, 4 + text_size(scheme) + text_size(credentials), SNIB__ZK_XID_AUTH,
               SNIB__ZK_AUTH)) {
        return false;
    }
    put_int(b, 0);
    put_text(b, scheme);
    put_text(b, credentials);
    return true;
}

bool snib__zk_put_bare(struct snib__buffer *b, int32_t xid, enum snib__zk_op op)
{
    return begin(b, 0, xid, op);
}

bool snib__zk_put_path(struct snib__buffer *b, int32_t xid, enum snib__zk_op op, const char *path,
                       bool watch)
{
    bool watchable = op != SNIB__ZK_SYNC;
    if (!begin(b, text_size(path) + watchable, xid, op)) {
        return false;
    }
    put_text(b, path);
    if (watchable) {
        put_byte(b, watch);
    }
    return true;
}

static size_t rights_size(const struct snib__zk_right *rights)
{
    size_t size = 4;
    for (; rights->scheme; rights++) {
        size += 4 + text_size(rights->scheme) + text_size(rights->id);
    }
    return size;
}

static void put_rights(struct snib__buffer *b, const struct snib__zk_right *rights)
{
    int32_t count = 0;
    while (rights[count].scheme) {
        count++;
    }
    put_int(b, count);
    for (; rights->scheme; rights++) {
        put_int(b, rights->permissions);
        put_text(b, rights->scheme);
        put_text(b, rights->id);
    }
}

bool snib__zk_put_create(struct snib__buffer *b, int32_t xid, const struct snib__zk_creation *c)
{
    size_t body = text_size(c->path) + text_size(c->data) + rights_size(c->rights) + 4;
    if (!begin(b, body, xid, c->op)) {
        return false;
    }
    put_text(b, c->path);
    put_text(b, c->data);
    put_rights(b, c->rights);
    put_int(b, (int32_t)c->flags);
    return true;
}

bool snib__zk_put_delete(struct snib__buffer *b, int32_t xid, const char *path)
{
    if (!begin(b, text_size(path) + 4, xid, SNIB__ZK_DELETE)) {
        return false;
    }
    put_text(b, path);
    put_int(b, -1); /* whatever its version */
    return true;
}

bool snib__zk_put_set(struct snib__buffer *b, int32_t xid, const char *path, const char *data,
                      int32_t version)
{
    if (!begin(b, text_size(path) + text_size(data) + 4, xid, SNIB__ZK_SET_DATA)) {
        return false;
    }
    put_text(b, path);
    put_text(b, data);
    put_int(b, version);
    return true;
}

/* In front of each part of a multi, and behind the last. */
static void put_part(struct snib__buffer *b, int32_t type, bool done)
{
    put_int(b, type);
    put_byte(b, done);
    put_int(b, -1);
}

bool snib__zk_put_set_and_delete(struct snib__buffer *b, int32_t xid, const char *path,
                                 const char *data, const char *removed)
{
    enum { PART = 9 };
    size_t body = 3 * PART + text_size(path) + text_size(data) + 4 + text_size(removed) + 4;
    if (!begin(b, body, xid, SNIB__ZK_MULTI)) {
        return false;
    }
    put_part(b, SNIB__ZK_SET_DATA, false);
    put_text(b, path);
    put_text(b, data);
    put_int(b, -1);
    put_part(b, SNIB__ZK_DELETE, false);
    put_text(b, removed);
    put_int(b, -1);
    put_part(b, -1, true);
    return true;
}

bool snib__zk_put_proof(struct snib__buffer *b, int32_t xid, const char *path)
{
    enum { PART = 9 };
    if (!begin(b, 2 * PART + text_size(path) + 4, xid, SNIB__ZK_MULTI)) {
        return false;
    }
    put_part(b, SNIB__ZK_CHECK, false);
    put_text(b, path);
    put_int(b, -1);
    put_part(b, -1, true);
    return true;
}

bool snib__zk_put_trial(struct snib__buffer *b, int32_t xid, const char *below,
                        const struct snib__zk_right *rights)
{
    static const char lock[] = "/_snib-trial", node[] = "/node";
    enum { PART = 9, LOCK = sizeof lock - 1, NODE = sizeof node - 1, VERSION = 4, FLAGS = 4 };
    size_t lock_size = 4 + strlen(below) + LOCK, node_size = lock_size + NODE;
    size_t body = 6 * PART + lock_size + 4 * node_size + 2 * (4 + rights_size(rights) + FLAGS) + 4 +
                  3 * VERSION;
    if (!begin(b, body, xid, SNIB__ZK_MULTI)) {
        return false;
    }
    for (int part = 0; part <= SNIB__ZK_TRIAL_UNDO; part++) {
        bool makes = part <= SNIB__ZK_TRIAL_NODE, writes = part == SNIB__ZK_TRIAL_WRITE;
        bool whole = part != SNIB__ZK_TRIAL_LOCK;
        put_part(b, makes ? SNIB__ZK_CREATE : writes ? SNIB__ZK_SET_DATA : SNIB__ZK_DELETE, false);
        put_int(b, (int32_t)((whole ? node_size : lock_size) - 4));
        put_raw(b, below, strlen(below));
        put_raw(b, lock, LOCK);
        put_raw(b, node, whole ? NODE : 0);
        if (makes) {
            put_text(b, "");
            put_rights(b, rights);
            put_int(b, whole ? SNIB__ZK_EPHEMERAL : SNIB__ZK_PERSISTENT);
        } else {
            if (writes) {
                put_text(b, "");
            }
            put_int(b, -1);
        }
    }
    put_part(b, -1, true);
    return true;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static const unsigned char *take(struct snib__zk_reader *r, size_t size)
{
    static const unsigned char nothing[SNIB__ZK_PASSWORD];
    if (r->bad || r->left < size) {
        r->bad = true;
        return nothing; /* for numbers; texts look at `bad` */
    }
    const char *at = r->at;
    r->at += size;
    r->left -= size;
    return (const unsigned char *)at;
}

static int32_t get_int(struct snib__zk_reader *r)
{
    const unsigned char *p = take(r, 4);
    return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
}

static int64_t get_long(struct snib__zk_reader *r)
{
    uint64_t high = (uint32_t)get_int(r);
    return (int64_t)(high << 32 | (uint32_t)get_int(r));
}

int snib__zk_frame(const char *bytes, size_t have, size_t *size)
{
    struct snib__zk_reader r = {.at = bytes, .left = have};
    if (have < 4) {
        return 0;
    }
    int32_t length = get_int(&r);
    if (length < 0 || length > SNIB__ZK_FRAME_MOST) {
        return -1;
    }
    *size = (size_t)length;
    return have - 4 >= *size;
}

bool snib__zk_get_text(struct snib__zk_reader *r, struct snib__zk_text *out)
{
    int32_t size = get_int(r);
    out->size = size > 0 ? (size_t)size : 0; /* -1: none */
    if (size < -1) {
        r->bad = true;
    }
    if (r->bad || r->left < out->size) {
        r->bad = true;
        out->size = 0;
    }
    out->at = (const char *)take(r, out->size);
    return !r->bad;
}

bool snib__zk_get_header(struct snib__zk_reader *r, struct snib__zk_header *out)
{
    out->xid = get_int(r);
    out->zxid = get_long(r);
    out->error = get_int(r);
    return !r->bad;
}

bool snib__zk_get_welcome(struct snib__zk_reader *r, struct snib__zk_welcome *out)
{
    struct snib__zk_text password;
    (void)get_int(r); /* the protocol's version */
    out->timeout_ms = get_int(r);
    out->session = get_long(r);
    snib__zk_get_text(r, &password);
    memset(out->password, 0, sizeof out->password);
    if (password.size == sizeof out->password) {
        memcpy(out->password, password.at, password.size);
    } else if (out->timeout_ms > 0) {
        r->bad = true;
    }
    out->read_only = r->left > 0 && *take(r, 1); /* old servers do not say */
    return !r->bad;
}

bool snib__zk_get_event(struct snib__zk_reader *r, struct snib__zk_event *out)
{
    out->type = get_int(r);
    (void)get_int(r); /* the state of the session: known */
    return snib__zk_get_text(r, &out->path);
}

bool snib__zk_get_stat(struct snib__zk_reader *r, struct snib__zk_stat *out)
{
    out->created = get_long(r);
    out->changed = get_long(r);
    out->created_ms = get_long(r);
    out->changed_ms = get_long(r);
    out->version = get_int(r);
    out->children_version = get_int(r);
    out->acl_version = get_int(r);
    out->owner = get_long(r);
    out->data_size = get_int(r);
    out->child_count = get_int(r);
    out->children_changed = get_long(r);
    return !r->bad;
}

bool snib__zk_get_created(struct snib__zk_reader *r, struct snib__zk_text *path,
                          struct snib__zk_stat *stat)
{
    return snib__zk_get_text(r, path) && snib__zk_get_stat(r, stat);
}

bool snib__zk_get_data(struct snib__zk_reader *r, struct snib__zk_text *data,
                       struct snib__zk_stat *stat)
{
    return snib__zk_get_text(r, data) && snib__zk_get_stat(r, stat);
}

bool snib__zk_get_multi(struct snib__zk_reader *r, int32_t *error, int *part)
{
    struct snib__zk_stat stat;
    *error = SNIB__ZK_OK;
    *part = 0;
    for (int i = 0; !r->bad; i++) {
        int32_t type = get_int(r);
        bool done = *take(r, 1) != 0;
        (void)get_int(r);
        if (done) {
            break;
        }
        if (type == -1) {
            int32_t own = get_int(r);
            if (own != SNIB__ZK_OK && own != SNIB__ZK_UNDONE) {
                *error = own;
                *part = i;
            }
        } else if (type == SNIB__ZK_SET_DATA) {
            snib__zk_get_stat(r, &stat);
        } else if (type != SNIB__ZK_DELETE && type != SNIB__ZK_CHECK) {
            r->bad = true;
        }
    }
    return !r->bad;
}

bool snib__zk_get_count(struct snib__zk_reader *r, int32_t *count)
{
    *count = get_int(r);
    if (*count < 0) {
        *count = 0;
    }
    if ((size_t)*count > r->left / 4) { /* each has at least its length */
        r->bad = true;
    }
    return !r->bad;
}
