/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server sends, the receiving side of an etcd connection stays within its memory: HTTP/2
 * frames, headers, messages of every kind that is expected, and what is read out of them. The first
 * byte says in pieces of which size the rest arrives; if it is odd, the rest is not HTTP/2 but the
 * body of one message, of the kind that the second byte says.
 */
#include "engines/etcd/connection.h"
#include "engines/etcd/keys.h"
#include <rpc.pb-c.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct etcd_method methods[] = {
    {"/etcdserverpb.KV/Txn", &pb__txn_response__descriptor},
    {"/etcdserverpb.Watch/Watch", &pb__watch_response__descriptor},
    {"/etcdserverpb.Lease/LeaseKeepAlive", &pb__lease_keep_alive_response__descriptor},
    {"/etcdserverpb.KV/Range", &pb__range_response__descriptor},
    {"/etcdserverpb.Lease/LeaseGrant", &pb__lease_grant_response__descriptor},
    {"/etcdserverpb.Auth/Authenticate", &pb__authenticate_response__descriptor},
    {"/etcdserverpb.Maintenance/Status", &pb__status_response__descriptor},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static void read_pair(const Pb__KeyValue *kv)
{
    struct etcd_value value;
    char name[SNIB__NAME_MAX + 1];
    size_t base;
    unsigned permits;
    etcd_value_read(&value, &kv->value);
    (void)etcd_key_class(&kv->key, "name/", &permits);
    (void)etcd_key_name(name, &base, "locks/", &kv->key);
}

static void read_range(const Pb__RangeResponse *range)
{
    for (size_t i = 0; range && i < range->n_kvs; i++) {
        read_pair(range->kvs[i]);
    }
}

static void look(const ProtobufCMessage *message)
{
    if (message->descriptor == &pb__range_response__descriptor) {
        read_range((const Pb__RangeResponse *)message);
    } else if (message->descriptor == &pb__txn_response__descriptor) {
        const Pb__TxnResponse *txn = (const Pb__TxnResponse *)message;
        for (size_t i = 0; i < txn->n_responses; i++) {
            if (txn->responses[i]->response_case == PB__RESPONSE_OP__RESPONSE_RANGE) {
                read_range(txn->responses[i]->range);
            }
        }
    } else if (message->descriptor == &pb__watch_response__descriptor) {
        const Pb__WatchResponse *watch = (const Pb__WatchResponse *)message;
        for (size_t i = 0; i < watch->n_events; i++) {
            if (watch->events[i]->kv) {
                read_pair(watch->events[i]->kv);
            }
        }
    }
}

static void on_message(struct etcd_call *call, const ProtobufCMessage *message)
{
    (void)call;
    look(message);
}

static void on_ended(struct etcd_connection *connection, struct etcd_call *call)
{
    (void)connection;
    if (call->reply) {
        look(call->reply);
    }
    etcd_call_free(call);
}

static void on_lost(struct etcd_connection *connection)
{
    while (!snib__list_empty(&connection->calls)) {
        etcd_call_free(SNIB__OF(connection->calls.after, struct etcd_call, place));
    }
}

static const struct etcd_connection_upcalls upcalls = {.ended = on_ended, .lost = on_lost};

static void hear(const uint8_t *data, size_t size, size_t step)
{
    struct etcd_connection connection;
    etcd_connection_init(&connection, &upcalls, NULL);
    connection.host = "fuzz";
    if (etcd_connection_speak(&connection)) {
        connection.state = ETCD_JOINED;
        for (int i = 0; i < METHODS; i++) {
            struct etcd_call *call = etcd_call_new(&methods[i], NULL);
            if (call) {
                call->message = i == 1 || i == 2 ? on_message : NULL;
                call->lasting = i == 1;
                (void)etcd_connection_send(&connection, call, "token");
            }
        }
        const uint8_t *out;
        while (nghttp2_session_mem_send(connection.h2, &out) > 0) {
        }
        for (size_t at = 0; at < size && connection.h2; at += step) {
            etcd_connection_hear(&connection, data + at, size - at < step ? size - at : step);
            while (connection.h2 && nghttp2_session_mem_send(connection.h2, &out) > 0) {
            }
        }
    }
    etcd_connection_close(&connection);
    on_lost(&connection);
    while (!snib__list_empty(&connection.over)) {
        etcd_call_free(SNIB__OF(connection.over.after, struct etcd_call, place));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        hear(data + 1, size - 1, data[0] ? data[0] : 4096);
        return 0;
    }
    ProtobufCMessage *message =
        protobuf_c_message_unpack(methods[data[1] % METHODS].reply, NULL, size - 2, data + 2);
    if (message) {
        look(message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return 0;
}
