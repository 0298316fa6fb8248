/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs: taking them apart.
 *
 *     scheme:[?query]
 *     scheme://[[user][:password]@]host[:port][,host[:port]...][/path][?query]
 *     scheme://[[user][:password]@]/path[?query]
 *
 * The text is printable ASCII, at most 2048 bytes. User, password, path and the values of the
 * query are percent-decoded; '+' is a plus sign. A decoded NUL is refused, and a decoded control
 * character everywhere but in a password. A key without '=' has the value NULL: only flags take
 * it. Nothing is guessed: an empty user, password, host, port, key or query is an error, as is
 * the same host or key twice.
 *
 * What the redactor (redact.c) hides is more than a parser would, so the parser refuses every URL
 * about which the two disagree: a URL that is accepted is shown exact but for its secrets, and a
 * mistyped one does not send half a password to a name server.
 *
 * Messages name the part and show the redacted URL. They never quote user, host or port: in a
 * mistyped URL those are where a password ends up.
 */
#include "core/url.h"

#include "core/url_text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 2048
#define HOST_MAX 253
#define PORT_MAX 65535
#define SHOWN_MAX 120 /* of a URL in a message */
#define STARS "***"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* ---- Errors ----------------------------------------------------------------------------- */

static int out_of_memory(snib_error *err)
{
    return snib__fail(err, SNIB_ENOMEM, 0, "out of memory while reading a URL");
}

__attribute__((format(printf, 3, 4))) static int refuse(snib_error *err, const char *text,
                                                        const char *format, ...)
{
    char why[220];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);

    char *shown = snib__url_redact(text);
    const char *cut = shown != NULL && strlen(shown) > SHOWN_MAX ? "..." : "";
    (void)snib__fail(err, SNIB_EINVAL, 0, "URL '%.*s%s': %s", SHOWN_MAX,
                     shown != NULL ? shown : STARS, cut, why);
    free(shown);
    return SNIB_EINVAL;
}

/* ---- Parts ------------------------------------------------------------------------------ */

struct parts {
    struct snib__span scheme, user, password, hosts, path, query;
    bool slashes; /* "scheme://", not "scheme:" */
};

static int check_text(const char *text, snib_error *err)
{
    size_t size = strlen(text);
    if (size == 0) {
        return snib__fail(err, SNIB_EINVAL, 0, "the URL is empty");
    }
    if (size > TEXT_MAX) {
        return refuse(err, text, "it has %zu bytes, at most %d are allowed", size, TEXT_MAX);
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= 0x20 || text[i] > 0x7e) {
            return refuse(err, text,
                          "byte %zu is a space, a control character or not ASCII: write it as %%XX",
                          i + 1);
        }
    }
    if (strchr(text, '#') != NULL) {
        return refuse(err, text, "a '#' has no meaning here; inside of a part it is written %%23");
    }
    return 0;
}

static void split_authority(struct parts *parts, struct snib__span authority)
{
    parts->hosts = authority;
    const char *at = memrchr(authority.from, '@', snib__span_length(authority));
    if (at == NULL) {
        return;
    }
    parts->hosts.from = at + 1;
    parts->user = (struct snib__span){authority.from, at};
    const char *colon = memchr(authority.from, ':', snib__span_length(parts->user));
    if (colon != NULL) {
        parts->user.to = colon;
        parts->password = (struct snib__span){colon + 1, at};
    }
}

/* No scheme: most likely a host or a directory. What was typed is not repeated, because any of it
 * may be a password. */
static int refuse_plain(snib_error *err, const char *text)
{
    return refuse(err, text,
                  text[0] == '/' || text[0] == '.' || text[0] == '~'
                      ? "a directory is written file:///DIRECTORY, with its absolute path"
                      : "it must start with a scheme in lower case and a ':'; a Redis server is "
                        "written redis://HOST or redis://HOST:PORT, a directory file:///DIRECTORY");
}

static int split(struct parts *parts, const char *text, snib_error *err)
{
    size_t scheme = strspn(text, LOWER DIGITS "+.-");
    if (text[scheme] != ':' || text[0] < 'a' || text[0] > 'z') {
        return refuse_plain(err, text);
    }
    parts->scheme = (struct snib__span){text, text + scheme};

    const char *rest = text + scheme + 1;
    const char *end = text + strlen(text);
    parts->slashes = rest[0] == '/' && rest[1] == '/';
    if (!parts->slashes && *rest >= '0' && *rest <= '9') {
        return refuse_plain(err, text); /* host:port */
    }
    if (!parts->slashes && *rest != '\0' && *rest != '?') {
        int shown = scheme < 20 ? (int)scheme : 20;
        return refuse(err, text,
                      "behind '%.*s:' comes '//' or nothing; a path is absolute and is written "
                      "%.*s:///path",
                      shown, text, shown, text);
    }

    const char *question = strchr(rest, '?');
    if (question != NULL) {
        parts->query = (struct snib__span){question + 1, end};
        end = question;
    }
    if (parts->slashes) {
        rest += 2;
        const char *slash = memchr(rest, '/', (size_t)(end - rest));
        parts->path = (struct snib__span){slash != NULL ? slash : end, end};
        split_authority(parts, (struct snib__span){rest, parts->path.from});
    }
    return 0;
}

/* Refuse what the redactor and the parser take apart in different ways. */
static int check_agreement(const struct parts *parts, const char *text, snib_error *err)
{
    struct snib__span secret = snib__url_secret(text);
    if (secret.from == parts->password.from &&
        snib__span_length(secret) == snib__span_length(parts->password)) {
        return 0;
    }
    const char *at = strrchr(text, '@');
    if (secret.to == text + strlen(text) && (at == NULL || at < parts->hosts.to)) {
        return 0; /* a bad port: reading the hosts says so */
    }
    if (secret.to != parts->user.to && secret.to != parts->password.to) {
        return refuse(err, text,
                      "an '@' behind the hosts is written %%40, if a ':' stands before it; "
                      "in a user or password, '/' is %%2F, '?' is %%3F, '@' is %%40");
    }
    return refuse(err, text, "the user must not hold a ':', nor %%3A");
}

/* ---- Reading the parts ------------------------------------------------------------------ */

enum { CONTROLS_REFUSED, CONTROLS_ALLOWED };

/* Percent-decode into *out. `part` names it in the message. */
static int decode(char **out, struct snib__span raw, int controls, const char *part,
                  const char *text, snib_error *err)
{
    char *end = malloc(snib__span_length(raw) + 1);
    if (end == NULL) {
        return out_of_memory(err);
    }
    *out = end; /* snib__url_free finds it there, also half filled */

    for (const char *p = raw.from; p < raw.to; p++) {
        int c = (unsigned char)*p;
        *end = '\0';
        if (c == '%') {
            c = snib__escaped(p, raw.to);
            if (c < 0) {
                return refuse(err, text, "a '%%' in the %s is not followed by two hex digits",
                              part);
            }
            p += 2;
        }
        if (c == 0) {
            return refuse(err, text, "the %s must not hold %%00", part);
        }
        if (controls == CONTROLS_REFUSED && (c < 0x20 || c == 0x7f)) {
            return refuse(err, text, "the %s must not hold control characters", part);
        }
        *end++ = (char)c;
    }
    *end = '\0';
    return 0;
}

static int read_user(struct snib__url *out, const struct parts *parts, const char *text,
                     snib_error *err)
{
    if (parts->user.from != NULL) {
        struct snib__span both = {parts->user.from, parts->hosts.from - 1};
        bool has_password = parts->password.from != NULL;
        if (snib__span_length(both) == 0) {
            return refuse(err, text, "the user before the '@' is empty");
        }
        if (memchr(both.from, '@', snib__span_length(both)) != NULL) {
            return refuse(err, text, "an '@' in a user or password is written %%40");
        }
        if (has_password && snib__span_length(parts->password) == 0) {
            return refuse(err, text, "the password between ':' and '@' is empty");
        }
    }
    int rc = decode(&out->user, parts->user, CONTROLS_REFUSED, "user", text, err);
    if (rc < 0) {
        return rc;
    }
    return decode(&out->password, parts->password, CONTROLS_ALLOWED, "password", text, err);
}

/* The end of the name in host[:port], brackets included; NULL if it is not one. */
static const char *host_name_end(struct snib__span host)
{
    if (*host.from == '[') {
        char address[INET6_ADDRSTRLEN];
        struct in6_addr ignored;
        const char *bracket = memchr(host.from, ']', snib__span_length(host));
        size_t size = bracket != NULL ? (size_t)(bracket - host.from - 1) : sizeof address;
        if (size >= sizeof address) {
            return NULL;
        }
        memcpy(address, host.from + 1, size);
        address[size] = '\0';
        return inet_pton(AF_INET6, address, &ignored) == 1 ? bracket + 1 : NULL;
    }
    size_t size = strspn(host.from, LOWER UPPER DIGITS "._-");
    if (size == 0 || size > HOST_MAX || *host.from == '-' || *host.from == '.') {
        return NULL;
    }
    return host.from + size;
}

/* -1 if it is no port. */
static int port_of(struct snib__span digits)
{
    int port = 0;
    if (snib__span_length(digits) == 0 || snib__span_length(digits) > 5 || *digits.from == '0') {
        return -1;
    }
    for (const char *p = digits.from; p < digits.to; p++) {
        if (*p < '0' || *p > '9') {
            return -1;
        }
        port = port * 10 + (*p - '0');
    }
    return port <= PORT_MAX ? port : -1;
}

static int read_host(struct snib__url *out, struct snib__span host, const char *text,
                     snib_error *err)
{
    size_t number = out->host_count + 1;
    if (number > SNIB__HOSTS_MAX) {
        return refuse(err, text, "at most %d hosts are allowed", SNIB__HOSTS_MAX);
    }
    if (snib__span_length(host) == 0) {
        return refuse(err, text, "host %zu is empty", number);
    }
    const char *end = host_name_end(host);
    if (end == NULL || (end < host.to && *end != ':')) {
        return refuse(err, text,
                      "host %zu is neither a name of letters, digits, '.', '-' and '_' (at most "
                      "%d bytes) nor an IPv6 address in brackets",
                      number, HOST_MAX);
    }
    int port = end < host.to ? port_of((struct snib__span){end + 1, host.to}) : 0;
    if (port < 0) {
        return refuse(err, text, "the port of host %zu is not a number from 1 to %d", number,
                      PORT_MAX);
    }

    size_t bracket = *host.from == '[' ? 1 : 0;
    char *name = strndup(host.from + bracket, (size_t)(end - host.from) - 2 * bracket);
    if (name == NULL) {
        return out_of_memory(err);
    }
    out->hosts[out->host_count++] = (struct snib__host){.name = name, .port = port};
    for (size_t i = 0; i + 1 < number; i++) {
        if (out->hosts[i].port == port && strcasecmp(out->hosts[i].name, name) == 0) {
            return refuse(err, text, "hosts %zu and %zu are the same", i + 1, number);
        }
    }
    return 0;
}

static int read_hosts(struct snib__url *out, const struct parts *parts, const char *text,
                      snib_error *err)
{
    if (!parts->slashes) {
        return 0;
    }
    if (snib__span_length(parts->hosts) == 0) {
        if (snib__span_length(parts->path) == 0) {
            return refuse(err, text, "behind '//' a host or an absolute path is missing");
        }
        return 0;
    }
    const char *from = parts->hosts.from;
    for (;;) {
        const char *comma = memchr(from, ',', (size_t)(parts->hosts.to - from));
        struct snib__span host = {from, comma != NULL ? comma : parts->hosts.to};
        int rc = read_host(out, host, text, err);
        if (rc < 0 || comma == NULL) {
            return rc;
        }
        from = comma + 1;
    }
}

/* ---- The query -------------------------------------------------------------------------- */

static int check_key(const struct snib__settings *settings, struct snib__span key, const char *text,
                     snib_error *err)
{
    size_t number = settings->count + 1;
    if (snib__span_length(key) == 0) {
        return refuse(err, text, "the key of parameter %zu is empty", number);
    }
    if (strspn(key.from, LOWER DIGITS "-_.") < snib__span_length(key)) {
        return refuse(err, text,
                      "the key of parameter %zu holds something else than lower-case letters, "
                      "digits, '-', '_' and '.'",
                      number);
    }
    for (size_t i = 0; i < settings->count; i++) {
        const char *other = settings->list[i].key;
        assert(other != NULL);
        if (strlen(other) == snib__span_length(key) &&
            memcmp(other, key.from, snib__span_length(key)) == 0) {
            return refuse(err, text, "parameters %zu and %zu are both '%.40s'", i + 1, number,
                          other);
        }
    }
    return 0;
}

static int read_setting(struct snib__settings *settings, struct snib__span pair, const char *text,
                        snib_error *err)
{
    const char *equals = memchr(pair.from, '=', snib__span_length(pair));
    struct snib__span key = {pair.from, equals != NULL ? equals : pair.to};

    if (equals == NULL && settings->count > 0 && snib__span_length(key) > 0) {
        const char *before = settings->list[settings->count - 1].key;
        assert(before != NULL);
        if (snib__url_secret_key((struct snib__span){before, before + strlen(before)})) {
            return refuse(err, text, "an '&' in a secret value is written %%26");
        }
    }
    int rc = check_key(settings, key, text, err);
    if (rc < 0) {
        return rc;
    }

    struct snib__setting *setting = &settings->list[settings->count];
    setting->key = strndup(key.from, snib__span_length(key));
    if (setting->key == NULL) {
        return out_of_memory(err);
    }
    settings->count++;
    if (equals == NULL) {
        return 0;
    }
    char part[64];
    (void)snprintf(part, sizeof part, "value of '%.40s'", setting->key);
    return decode(&setting->value, (struct snib__span){equals + 1, pair.to}, CONTROLS_REFUSED, part,
                  text, err);
}

static int read_query(struct snib__settings *settings, struct snib__span query, const char *text,
                      snib_error *err)
{
    if (query.from == NULL) {
        return 0;
    }
    size_t pairs = 1;
    for (const char *p = query.from; p < query.to; p++) {
        pairs += *p == '&';
    }
    settings->list = calloc(pairs, sizeof settings->list[0]);
    if (settings->list == NULL) {
        return out_of_memory(err);
    }

    const char *from = query.from;
    for (;;) {
        const char *amp = memchr(from, '&', (size_t)(query.to - from));
        struct snib__span pair = {from, amp != NULL ? amp : query.to};
        int rc = read_setting(settings, pair, text, err);
        if (rc < 0 || amp == NULL) {
            return rc;
        }
        from = amp + 1;
    }
}

/* ---- The whole -------------------------------------------------------------------------- */

static int parse(struct snib__url *out, struct snib__settings *settings, const char *text,
                 snib_error *err)
{
    struct parts parts = {.slashes = false};
    int rc;

    /* Agreement comes before any part is read: until then, nobody knows what is a password. */
    if ((rc = check_text(text, err)) < 0 || (rc = split(&parts, text, err)) < 0 ||
        (rc = check_agreement(&parts, text, err)) < 0) {
        return rc;
    }
    out->scheme = strndup(text, snib__span_length(parts.scheme));
    if (out->scheme == NULL) {
        return out_of_memory(err);
    }
    if ((rc = read_user(out, &parts, text, err)) < 0 ||
        (rc = read_hosts(out, &parts, text, err)) < 0 ||
        (rc = decode(&out->path, parts.path, CONTROLS_REFUSED, "path", text, err)) < 0) {
        return rc;
    }
    return read_query(settings, parts.query, text, err);
}

int snib__url_parse(struct snib__url *out, struct snib__settings *settings, const char *text,
                    snib_error *err)
{
    *out = (struct snib__url){.host_count = 0};
    *settings = (struct snib__settings){.count = 0};
    if (text == NULL) {
        return snib__fail(err, SNIB_EINVAL, 0, "there is no URL");
    }
    int rc = parse(out, settings, text, err);
    if (rc < 0) {
        snib__url_free(out, settings);
    }
    return rc;
}

static void wipe(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

void snib__url_free(struct snib__url *url, struct snib__settings *settings)
{
    if (url != NULL) {
        free(url->scheme);
        free(url->user);
        wipe(url->password);
        for (size_t i = 0; i < url->host_count; i++) {
            free(url->hosts[i].name);
        }
        free(url->path);
        *url = (struct snib__url){.host_count = 0};
    }
    if (settings != NULL) {
        for (size_t i = 0; i < settings->count; i++) {
            free(settings->list[i].key);
            wipe(settings->list[i].value);
        }
        free(settings->list);
        *settings = (struct snib__settings){.count = 0};
    }
}
