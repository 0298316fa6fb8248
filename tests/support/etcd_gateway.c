/*
 * Requests to the JSON gateway of an etcd: one connection each, HTTP/1.0, answers by looking for
 * words. Bytes are base64 there, and numbers of 64 bits are texts.
 */
#include "etcd_gateway.h"

#include "port.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER = 1 << 20 };

const char *etcd_post_as(const struct server *server, const char *token, const char *path,
                         const char *body)
{
    static char answer[ANSWER];
    char request[4096];
    size_t used = 0;
    int descriptor = port_connect(server->port);
    if (descriptor < 0) {
        FAIL("%s: no connection for %s", server->name, path);
    }
    int size = snprintf(request, sizeof request,
                        "POST /v3/%s HTTP/1.0\r\nContent-Type: application/json\r\n"
                        "%s%s%sContent-Length: %zu\r\n\r\n%s",
                        path, token ? "Authorization: " : "", token ? token : "",
                        token ? "\r\n" : "", strlen(body), body);
    CHECK(size > 0 && (size_t)size < sizeof request);
    CHECK(send(descriptor, request, (size_t)size, MSG_NOSIGNAL) == size);
    struct pollfd readable = {.fd = descriptor, .events = POLLIN};
    for (ssize_t got = 1; got > 0 && used + 1 < sizeof answer;) {
        CHECK(poll(&readable, 1, check_ms(10000)) == 1);
        got = recv(descriptor, answer + used, sizeof answer - 1 - used, 0);
        used += got > 0 ? (size_t)got : 0;
    }
    answer[used] = '\0';
    close(descriptor);
    return answer;
}

const char *etcd_post(const struct server *server, const char *path, const char *body)
{
    return etcd_post_as(server, NULL, path, body);
}

void etcd_token(const struct server *server, const char *user, const char *password, char out[1024])
{
    char body[300];
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"password\":\"%s\"}", user, password);
    const char *answer = etcd_post(server, "auth/authenticate", body);
    const char *token = strstr(answer, "\"token\":\"");
    if (token == NULL || sscanf(token, "\"token\":\"%1023[^\"]", out) != 1) {
        FAIL("no token for %s: %s", user, answer);
    }
}

static const char *base64(const char *text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char out[4][1024];
    static int next;
    char *to = out[next], *const start = out[next];
    size_t size = strlen(text);
    next = (next + 1) % 4;
    for (size_t i = 0; i < size; i += 3) {
        unsigned long bits = (unsigned long)(unsigned char)text[i] << 16;
        bits |= i + 1 < size ? (unsigned long)(unsigned char)text[i + 1] << 8 : 0;
        bits |= i + 2 < size ? (unsigned long)(unsigned char)text[i + 2] : 0;
        *to++ = letters[bits >> 18 & 63];
        *to++ = letters[bits >> 12 & 63];
        *to++ = i + 1 < size ? letters[bits >> 6 & 63] : '=';
        *to++ = i + 2 < size ? letters[bits & 63] : '=';
    }
    *to = '\0';
    return start;
}

static const char *end_of(const char *prefix)
{
    static char end[512];
    size_t size = (size_t)snprintf(end, sizeof end, "%s", prefix);
    end[size - 1]++;
    return end;
}

/* The number behind "WORD":" from there on; -1: there is none. */
static int64_t number_behind(const char *text, const char *word)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":\"", word);
    const char *at = strstr(text, quoted);
    return at != NULL ? strtoll(at + strlen(quoted), NULL, 10) : -1;
}

int etcd_keys(const struct server *server, const char *prefix)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"range_end\":\"%s\",\"count_only\":true}",
             base64(prefix), base64(end_of(prefix)));
    int64_t count = number_behind(etcd_post(server, "kv/range", body), "count");
    return count < 0 ? 0 : (int)count;
}

void etcd_put(const struct server *server, const char *key, int64_t lease)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"lease\":\"%" PRId64 "\"}", base64(key), lease);
    const char *answer = etcd_post(server, "kv/put", body);
    if (strstr(answer, "revision") == NULL) {
        FAIL("put %s: %s", key, answer);
    }
}

void etcd_delete(const struct server *server, const char *prefix)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"range_end\":\"%s\"}", base64(prefix),
             base64(end_of(prefix)));
    const char *answer = etcd_post(server, "kv/deleterange", body);
    if (strstr(answer, "deleted") == NULL) {
        FAIL("delete %s: %s", prefix, answer);
    }
}

int64_t etcd_lease_of(const struct server *server, const char *prefix, int which)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"key\":\"%s\",\"range_end\":\"%s\",\"sort_order\":\"ASCEND\","
             "\"sort_target\":\"CREATE\"}",
             base64(prefix), base64(end_of(prefix)));
    const char *at = etcd_post(server, "kv/range", body);
    for (int i = 0; at != NULL && i <= which; i++) {
        at = strstr(at, "\"lease\":");
        at = at != NULL && i < which ? at + 1 : at;
    }
    return at != NULL ? number_behind(at, "lease") : 0;
}

void etcd_revoke(const struct server *server, int64_t lease)
{
    char body[128];
    snprintf(body, sizeof body, "{\"ID\":\"%" PRId64 "\"}", lease);
    const char *answer = etcd_post(server, "lease/revoke", body);
    if (strstr(answer, "revision") == NULL) {
        FAIL("revoke %" PRId64 ": %s", lease, answer);
    }
}

int etcd_leases(const struct server *server)
{
    int count = 0;
    const char *at = etcd_post(server, "lease/leases", "{}");
    while ((at = strstr(at, "\"ID\":\"")) != NULL) {
        int64_t id = number_behind(at, "ID");
        count += id >> 48 != 0x736e;
        at++;
    }
    return count;
}

int64_t etcd_revision(const struct server *server)
{
    return number_behind(etcd_post(server, "kv/range", "{\"key\":\"AA==\"}"), "revision");
}

void etcd_compact(const struct server *server)
{
    char body[128];
    snprintf(body, sizeof body, "{\"revision\":\"%" PRId64 "\"}", etcd_revision(server));
    const char *answer = etcd_post(server, "kv/compaction", body);
    if (strstr(answer, "header") == NULL) {
        FAIL("compaction: %s", answer);
    }
}
