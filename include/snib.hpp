/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_HPP
#define SNIB_HPP

/*
 * snib for C++17: the calls of snib.h with owners, exceptions and functions. Headers only: link
 * libsnib as for C.
 *
 *     snib::client client("file:");
 *     snib::lease lease = client.acquire("nightly-report", snib::options().wait(30s));
 *     work(lease.token());
 *
 * What a lock can and cannot promise, threads, fork and every limit stand in snib.h and snib(3),
 * and hold here word for word. This page says what C++ adds.
 *
 * Ownership: a client closes in its destructor, a lease is given back in its destructor; both can
 * be moved and not copied, and neither destructor throws. A lease may outlive its client: it is
 * then released already. Giving back may take a round trip, also when a new lease is moved onto an
 * old one. What a destructor learns is lost with it: who wants to know whether the lock was held
 * until the end calls release() and looks at the answer.
 *
 * Errors: constructors, acquire and most calls throw snib::error, which carries the code of
 * snib.h, the message and, with SNIB_EBUSY, the holder. try_acquire and try_acquire_for never
 * throw and answer a snib::result: a lease or the error. std::bad_alloc is thrown where C++ itself
 * runs out of memory. A std::string with a NUL byte in it is refused, never cut.
 *
 * Functions: on_event, acquire_async and release_async take any callable. They run where snib.h
 * says (a thread of the library, or inside dispatch(), which is then called from one thread at a
 * time), live as long as they can be called, and may release, acquire and close. They must not
 * throw: an exception that leaves one ends the program, as in a thread.
 *
 * A lock as a mutex: snib::mutex has lock(), try_lock() and unlock(), for std::lock_guard,
 * std::unique_lock and std::scoped_lock. A lease tells more, and is what new code should use.
 *
 * Durations are std::chrono::milliseconds: coarser ones convert, finer ones do not compile,
 * because nothing is rounded.
 *
 * Why `snib` is not a namespace here: snib.h has named its client handle so, and a name is one or
 * the other. This header completes that struct as a scope of names, of which no object can be
 * made; `snib *` remains what snib.h says it is, and both headers can be included in any order.
 */

#if __cplusplus < 201703L
#error "snib.hpp needs C++17: compile with -std=c++17 or later"
#endif

#include <snib.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct snib {
    snib() = delete;
    ~snib() = delete;

    using milliseconds = std::chrono::milliseconds;
    using ticket = snib_ticket;

    enum class mode : int {
        exclusive = SNIB_EXCLUSIVE,
        shared = SNIB_SHARED,
        counted = SNIB_COUNTED
    };

    enum class state : int {
        waiting = SNIB_WAITING,
        held = SNIB_HELD,
        doubtful = SNIB_DOUBTFUL,
        lost = SNIB_LOST,
        released = SNIB_RELEASED
    };

    class error;
    class event;
    class options;
    class lease;
    class result;
    class client;
    class mutex;

    /* ---- Errors ------------------------------------------------------------------------- */

    class error : public std::exception
    {
      public:
        explicit error(const snib_error &raw) noexcept : raw_(raw)
        {
        }

        /* A failure of which nothing but the code is known. */
        explicit error(int code, const char *message = nullptr) noexcept : raw_()
        {
            raw_.code = code;
            raw_.holder_left_ms = -1;
            std::strncpy(raw_.message, message != nullptr ? message : snib_strerror(code),
                         sizeof raw_.message - 1);
        }

        const char *what() const noexcept override
        {
            return raw_.message;
        }

        int code() const noexcept /* SNIB_EBUSY, ... */
        {
            return raw_.code;
        }

        const char *name() const noexcept /* "EBUSY" */
        {
            return snib_errname(raw_.code);
        }

        int sys() const noexcept /* errno behind it, or 0 */
        {
            return raw_.sys;
        }

        const char *holder() const noexcept /* "web3:4711 nightly", or "" */
        {
            return raw_.holder;
        }

        std::uint64_t holder_token() const noexcept /* 0 unknown */
        {
            return raw_.holder_token;
        }

        /* Until the holder's lease ends if it is not renewed. */
        std::optional<milliseconds> holder_left() const noexcept
        {
            return raw_.holder_left_ms < 0 ? std::nullopt
                                           : std::optional(milliseconds(raw_.holder_left_ms));
        }

        const snib_error &raw() const noexcept
        {
            return raw_;
        }

      private:
        snib_error raw_; /* by value: copying an exception must not fail */
    };

    /* ---- Events ------------------------------------------------------------------------- */

    /* What happens to a lease or to a wait; valid during the call. */
    class event
    {
      public:
        explicit event(const snib_event &raw) noexcept : raw_(raw)
        {
        }

        snib::state state() const noexcept
        {
            return static_cast<snib::state>(raw_.state);
        }

        snib::ticket ticket() const noexcept /* of acquire_async, else 0 */
        {
            return raw_.ticket;
        }

        /* As lease::left(); while waiting that of the holder. Empty: unknown. */
        std::optional<milliseconds> left() const noexcept
        {
            bool unknown = raw_.state == SNIB_WAITING && raw_.left_ms < 0;
            return unknown ? std::nullopt : std::optional(milliseconds(raw_.left_ms));
        }

        const char *why() const noexcept /* "behind web3:4711, place 2" */
        {
            return raw_.why;
        }

        const snib_event &raw() const noexcept
        {
            return raw_;
        }

      private:
        const snib_event &raw_;
    };

  private:
    /* A function that is told of events. Shared, and held while it runs: it may well release the
     * lease that would else take it away. */
    struct watcher : std::enable_shared_from_this<watcher> {
        explicit watcher(std::function<void(const event &)> what) : call(std::move(what))
        {
        }

        static void told(const snib_event *raw, void *arg) noexcept
        {
            std::shared_ptr<watcher> self = static_cast<watcher *>(arg)->shared_from_this();
            self->call(event(*raw));
        }

        std::function<void(const event &)> call;
    };

    static const char *checked(const std::string &text)
    {
        if (text.find('\0') != std::string::npos) {
            throw error(SNIB_EINVAL, "a text with a NUL byte in it");
        }
        return text.c_str();
    }

  public:
    /* ---- Options ------------------------------------------------------------------------ */

    /* How to acquire; what is not said is as in SNIB_OPTIONS. Ranges are checked by acquire. */
    class options
    {
      public:
        options() noexcept : raw_ SNIB_OPTIONS
        {
        }

        options &exclusive() noexcept
        {
            return set_mode(SNIB_EXCLUSIVE, 1);
        }

        options &shared() noexcept
        {
            return set_mode(SNIB_SHARED, 1);
        }

        options &counted(unsigned permits) noexcept
        {
            return set_mode(SNIB_COUNTED, permits);
        }

        options &wait(milliseconds at_most) noexcept /* 0: try once */
        {
            raw_.wait_ms = at_most.count() < 0 ? -2 : at_most.count(); /* -1 is not for ever here */
            return *this;
        }

        options &wait_forever() noexcept /* as it is if nothing is said */
        {
            raw_.wait_ms = -1;
            return *this;
        }

        options &ttl(milliseconds span) noexcept
        {
            raw_.ttl_ms = span.count();
            return *this;
        }

        options &max_hold(milliseconds span) noexcept
        {
            raw_.max_hold_ms = span.count();
            return *this;
        }

        options &min_left(milliseconds span) noexcept
        {
            raw_.min_left_ms = span.count();
            return *this;
        }

        /* Equal owners enter again. */
        options &owner(const void *who) noexcept
        {
            raw_.owner = who;
            by_thread_ = false;
            return *this;
        }

        /* The owner is the thread that will acquire. */
        options &this_thread() noexcept
        {
            by_thread_ = true;
            return *this;
        }

        options &label(const std::string &why)
        {
            (void)checked(why);
            label_ = why;
            return *this;
        }

        options &async_release() noexcept /* giving back does not wait for the engine's answer */
        {
            raw_.flags |= SNIB_ASYNC_RELEASE;
            return *this;
        }

        options &no_renew() noexcept
        {
            raw_.flags |= SNIB_NO_RENEW;
            return *this;
        }

        /* The wait of a blocking acquire ends with SNIB_ECANCELED when this descriptor, which
         * stays the caller's, polls readable. -1: nothing ends it. Not for acquire_async. */
        options &stop_fd(int fd) noexcept
        {
            raw_.stop_fd = fd;
            return *this;
        }

        options &on_event(std::function<void(const event &)> call)
        {
            watcher_ = call ? std::make_shared<watcher>(std::move(call)) : nullptr;
            return *this;
        }

      private:
        friend class client;

        options &set_mode(int mode, unsigned permits) noexcept
        {
            raw_.mode = mode;
            raw_.permits = permits;
            return *this;
        }

        /* Points into this object. */
        snib_options raw() const noexcept
        {
            snib_options out = raw_;
            out.owner = by_thread_ ? snib_thread() : out.owner;
            out.label = label_.empty() ? nullptr : label_.c_str();
            out.on_event = watcher_ ? watcher::told : nullptr;
            out.arg = watcher_.get();
            return out;
        }

        snib_options raw_;
        bool by_thread_ = false;
        std::string label_;
        std::shared_ptr<watcher> watcher_;
    };

    /* ---- A lease ------------------------------------------------------------------------ */

    /* One grant, or none. An empty one is free of charge, has token 0 and state released. */
    class lease
    {
      public:
        lease() noexcept = default;

        /* Of a lease that came from the C calls; it is given back by this object. */
        explicit lease(snib_lease *raw) noexcept : raw_(raw)
        {
        }

        lease(lease &&other) noexcept
            : raw_(std::exchange(other.raw_, nullptr)), watcher_(std::move(other.watcher_))
        {
        }

        lease &operator=(lease &&other) noexcept
        {
            if (this != &other) {
                release();
                raw_ = std::exchange(other.raw_, nullptr);
                watcher_ = std::move(other.watcher_);
            }
            return *this;
        }

        lease(const lease &) = delete;
        lease &operator=(const lease &) = delete;

        ~lease()
        {
            release();
        }

        /* Is there a grant? Whether it still holds is asked by state() and left(). */
        explicit operator bool() const noexcept
        {
            return raw_ != nullptr;
        }

        /* Give it back; empty afterwards. Answers SNIB_OK, SNIB_ELOST (it had been lost before),
         * SNIB_EUNKNOWN (no answer; it ends with its ttl): news, not failures. */
        int release(snib_error *err = nullptr) noexcept
        {
            std::shared_ptr<watcher> last = std::move(watcher_);
            snib_lease *raw = std::exchange(raw_, nullptr);
            return snib_release(&raw, err);
        }

        /* The same without waiting. If this does not throw, it is empty and `done` is called
         * exactly once, with an error whose code is what release() would have answered: SNIB_OK
         * if all is well. Throws SNIB_EINVAL for an empty lease, SNIB_ESTATE after the client was
         * closed; the lease is then still here. */
        void release_async(std::function<void(const snib::error &)> done)
        {
            if (!done) {
                throw snib::error(SNIB_EINVAL, "no function to call when done");
            }
            std::unique_ptr<leaving> leaves(new leaving{std::move(done), watcher_});
            snib_error why;
            if (snib_release_async(&raw_, leaving::ended, leaves.get(), &why) < 0) {
                throw snib::error(why);
            }
            (void)leaves.release(); /* leaving::ended has it, and may have had it already */
            watcher_.reset();
        }

        std::uint64_t token() const noexcept /* the fencing number: pass it on */
        {
            return snib_token(raw_);
        }

        std::string name() const
        {
            const char *text = snib_name(raw_);
            return text != nullptr ? text : "";
        }

        snib::state state() const noexcept
        {
            return static_cast<snib::state>(snib_state(raw_));
        }

        /* Validity left on the local clock. Zero or less: behave as if lost. max(): no deadline. */
        milliseconds left() const noexcept
        {
            return milliseconds(snib_left_ms(raw_));
        }

        /* How long the engine keeps it after the last renewal; 0: no lease. */
        milliseconds ttl() const noexcept
        {
            return milliseconds(snib_ttl_ms(raw_));
        }

        /* Renew now, for `span` from now on (0: as before): see snib_renew. Throws SNIB_ELOST,
         * SNIB_EUNKNOWN, SNIB_ENOTSUP, SNIB_EINVAL, SNIB_ESTATE. */
        void renew(milliseconds span = milliseconds(0))
        {
            snib_error raw;
            if (snib_renew(raw_, span.count(), &raw) < 0) {
                throw error(raw);
            }
        }

        /* The same, as a code. */
        [[nodiscard]] int renew(std::nothrow_t, milliseconds span = milliseconds(0)) noexcept
        {
            return snib_renew(raw_, span.count(), nullptr);
        }

        /* A secret text with which client::give_back of another process frees this lock after
         * this process has died. Throws SNIB_ENOTSUP where locks end with their process. */
        [[nodiscard]] std::string handle() const
        {
            char text[SNIB_HANDLE_SIZE];
            snib_error raw;
            if (snib_handle(raw_, text, sizeof text, &raw) < 0) {
                throw error(raw);
            }
            return text;
        }

        /* Ask the engine. Throws SNIB_ELOST, SNIB_EUNKNOWN, SNIB_ESTATE. */
        void verify()
        {
            snib_error raw;
            if (snib_verify(raw_, &raw) < 0) {
                throw error(raw);
            }
        }

        /* The same, as a code. */
        [[nodiscard]] int verify(std::nothrow_t) noexcept
        {
            return snib_verify(raw_, nullptr);
        }

        /* Polls readable while doubtful or lost; closed with the lease. */
        int fd()
        {
            int answer = snib_fd(raw_);
            if (answer < 0) {
                throw error(answer);
            }
            return answer;
        }

        snib_lease *get() const noexcept /* for the C calls; still ours */
        {
            return raw_;
        }

      private:
        friend class client;

        struct leaving {
            std::function<void(const snib::error &)> done;
            std::shared_ptr<watcher> watched;

            static void ended(int code, const snib_error *why, void *arg) noexcept
            {
                std::unique_ptr<leaving> self(static_cast<leaving *>(arg));
                self->done(why != nullptr ? snib::error(*why) : snib::error(code));
            }
        };

        lease(snib_lease *raw, std::shared_ptr<watcher> watched) noexcept
            : raw_(raw), watcher_(std::move(watched))
        {
        }

        snib_lease *raw_ = nullptr;
        std::shared_ptr<watcher> watcher_;
    };

    /* ---- A lease or an error ------------------------------------------------------------ */

    class [[nodiscard]] result
    {
      public:
        result(lease granted) noexcept : lease_(std::move(granted)), error_(SNIB_OK)
        {
        }

        result(const snib::error &why) noexcept : error_(why)
        {
        }

        explicit operator bool() const noexcept
        {
            return error_.code() == SNIB_OK;
        }

        /* The lease; throws the error if there is none. */
        lease &value() &
        {
            check();
            return lease_;
        }

        lease value() &&
        {
            check();
            return std::move(lease_);
        }

        lease &operator*() noexcept /* empty if there is none */
        {
            return lease_;
        }

        lease *operator->() noexcept
        {
            return &lease_;
        }

        const snib::error &error() const noexcept /* its code is SNIB_OK if there is a lease */
        {
            return error_;
        }

      private:
        void check() const
        {
            if (error_.code() != SNIB_OK) {
                throw snib::error(error_);
            }
        }

        lease lease_;
        snib::error error_;
    };

    /* ---- Onlookers ---------------------------------------------------------------------- */

    /* A holder or waiter. */
    struct seen {
        std::string name, who, label;
        std::uint64_t token; /* 0 for a waiter, and where unknown */
        snib::mode mode;
        int place; /* 0 holds; else its place among the waiters, from 1 */
        unsigned permits;
        std::optional<std::chrono::system_clock::time_point> since; /* by the writer's clock */
        std::optional<milliseconds> left; /* empty: unknown; max(): no deadline */
    };

    enum class verdict : int { good = SNIB_GOOD, warning = SNIB_WARNING, bad = SNIB_BAD };

    /* What an examination found about one thing. */
    struct finding {
        snib::verdict verdict;
        std::string about, text;
        std::optional<std::string> remedy; /* empty: nothing to do */
    };

    /* ---- A client ----------------------------------------------------------------------- */

    class client
    {
      public:
        /* nullptr: SNIB_URL, else the configuration, else "file:". */
        explicit client(const char *url = nullptr)
        {
            snib_error why;
            if (snib_open(&raw_, url, &why) < 0) {
                throw snib::error(why);
            }
        }

        explicit client(const std::string &url) : client(checked(url))
        {
        }

        client(client &&other) noexcept : raw_(std::exchange(other.raw_, nullptr))
        {
        }

        client &operator=(client &&other) noexcept
        {
            if (this != &other) {
                close();
                raw_ = std::exchange(other.raw_, nullptr);
            }
            return *this;
        }

        client(const client &) = delete;
        client &operator=(const client &) = delete;

        ~client()
        {
            close();
        }

        /* Waits end with SNIB_ECANCELED, leases are given back. Empty afterwards. */
        void close() noexcept
        {
            snib_close(std::exchange(raw_, nullptr));
        }

        explicit operator bool() const noexcept
        {
            return raw_ != nullptr;
        }

        std::string url() const /* without secrets */
        {
            const char *text = snib_url(raw_);
            return text != nullptr ? text : "";
        }

        unsigned traits() const noexcept /* SNIB_TRAIT_FAIR | ... */
        {
            return snib_traits(raw_);
        }

        bool has(unsigned wanted) const noexcept /* all of these traits */
        {
            return (traits() & wanted) == wanted;
        }

        /* Wait as the options say: for ever unless told otherwise. Throws SNIB_EBUSY when the wait
         * ran out, and the rest of snib_acquire's errors. */
        [[nodiscard]] lease acquire(const std::string &name, const options &how = options())
        {
            return attempt(name, how.raw(), how).value();
        }

        /* Without waiting, whatever the options say. */
        result try_acquire(const std::string &name, const options &how = options()) noexcept
        {
            return try_acquire_for(name, milliseconds(0), how);
        }

        /* Waiting at most so long, whatever the options say. */
        result try_acquire_for(const std::string &name, milliseconds at_most,
                               const options &how = options()) noexcept
        {
            snib_options raw = how.raw();
            raw.wait_ms = at_most.count() < 0 ? -2 : at_most.count();
            return attempt(name, raw, how);
        }

        /* All or none; one lease per name in the order given. */
        [[nodiscard]] std::vector<lease> acquire_all(const std::vector<std::string> &names,
                                                     const options &how = options())
        {
            std::vector<const char *> texts = texts_of(names);
            std::vector<snib_lease *> granted(names.size());
            std::vector<lease> out;
            out.reserve(names.size()); /* nothing may fail once they are held */
            snib_options raw = how.raw();
            snib_error why;
            if (snib_acquire_all(granted.data(), raw_, texts.data(), texts.size(), &raw, &why) <
                0) {
                throw snib::error(why);
            }
            for (snib_lease *one : granted) {
                out.push_back(lease(one, how.watcher_));
            }
            return out;
        }

        /* Start an acquire. If this does not throw, `done` is called exactly once. */
        snib::ticket acquire_async(const std::string &name, std::function<void(result)> done,
                                   const options &how = options())
        {
            if (!done) {
                throw snib::error(SNIB_EINVAL, "no function to call when done");
            }
            std::unique_ptr<pending> waits(new pending{std::move(done), how.watcher_});
            snib_options raw = how.raw();
            snib::ticket out = 0;
            snib_error why;
            if (snib_acquire_async(&out, raw_, checked(name), &raw, pending::ended, waits.get(),
                                   &why) < 0) {
                throw snib::error(why);
            }
            (void)waits.release(); /* pending::ended has it, and may have had it already */
            return out;
        }

        /* All or none. `done` is called once: with one lease per name in the order given and an
         * error whose code is SNIB_OK, or with no lease and the error. */
        snib::ticket
        acquire_all_async(const std::vector<std::string> &names,
                          std::function<void(std::vector<lease>, const snib::error &)> done,
                          const options &how = options())
        {
            if (!done) {
                throw snib::error(SNIB_EINVAL, "no function to call when done");
            }
            std::vector<const char *> texts = texts_of(names);
            std::unique_ptr<pending_all> waits(
                new pending_all{std::move(done), how.watcher_, std::vector<lease>()});
            waits->granted.reserve(names.size()); /* nothing may fail once they are held */
            snib_options raw = how.raw();
            snib::ticket out = 0;
            snib_error why;
            if (snib_acquire_all_async(&out, raw_, texts.data(), texts.size(), &raw,
                                       pending_all::ended, waits.get(), &why) < 0) {
                throw snib::error(why);
            }
            (void)waits.release();
            return out;
        }

        /* True: `done` gets SNIB_ECANCELED. False: it has its answer already, or never was. */
        bool cancel(snib::ticket which) noexcept
        {
            return snib_cancel(raw_, which) == SNIB_OK;
        }

        /* Before the first acquire: functions are called in dispatch() alone, which is due when
         * the descriptor polls readable. */
        int events()
        {
            int fd = -1;
            snib_error why;
            if (snib_events(raw_, &fd, &why) < 0) {
                throw snib::error(why);
            }
            return fd;
        }

        int dispatch(int max = 0) /* answers how many were called; 0: all that are due */
        {
            int count = snib_dispatch(raw_, max);
            if (count < 0) {
                throw snib::error(count);
            }
            return count;
        }

        /* Holders first, then waiters in order. */
        std::vector<seen> inspect(const std::string &name)
        {
            return look(snib_inspect, name);
        }

        /* Of all names that start with `prefix`. */
        std::vector<seen> list(const std::string &prefix = std::string())
        {
            return look(snib_list, prefix);
        }

        /* Ask the holder with that token to give a lock up: see snib_break. */
        void break_lock(const std::string &name, std::uint64_t token)
        {
            snib_error why;
            if (snib_break(raw_, checked(name), token, &why) < 0) {
                throw snib::error(why);
            }
        }

        /* Take it away now, whatever its holder believes: see snib_seize. */
        void seize_lock(const std::string &name, std::uint64_t token)
        {
            snib_error why;
            if (snib_seize(raw_, checked(name), token, &why) < 0) {
                throw snib::error(why);
            }
        }

        /* Free a dead process's lock by its lease::handle(). True: it is free now. False: it was
         * not held any more. Only when nobody acts under that lock: see snib_give_back. */
        bool give_back(const std::string &handle)
        {
            snib_error why;
            int code = snib_give_back(raw_, checked(handle), &why);
            if (code < 0 && code != SNIB_ELOST) {
                throw snib::error(why);
            }
            return code == SNIB_OK;
        }

        /* What decides what this engine promises here and now: see snib_examine. */
        [[nodiscard]] std::vector<finding> examine()
        {
            findings out;
            snib_error why;
            if (snib_examine(raw_, findings::keep, &out, &why) < 0) {
                throw snib::error(why);
            }
            if (out.failed) {
                std::rethrow_exception(out.failed);
            }
            return std::move(out.all);
        }

        /* What an administrator must allow for this URL, as one line: see snib_rights. */
        [[nodiscard]] std::string rights() const
        {
            char line[SNIB_RIGHTS_SIZE];
            snib_error why;
            if (snib_rights(raw_, line, sizeof line, &why) < 0) {
                throw snib::error(why);
            }
            return line;
        }

        /* Counters since the client was opened, and two of the moment. */
        [[nodiscard]] snib_stats stats() const
        {
            snib_stats out = {};
            out.size = sizeof out;
            int code = snib_stats_read(raw_, &out);
            if (code < 0) {
                throw snib::error(code);
            }
            return out;
        }

        ::snib *get() const noexcept /* for the C calls; still ours */
        {
            return raw_;
        }

      private:
        static std::vector<const char *> texts_of(const std::vector<std::string> &names)
        {
            std::vector<const char *> texts;
            for (const std::string &name : names) {
                texts.push_back(checked(name));
            }
            return texts;
        }

        struct pending {
            std::function<void(result)> done;
            std::shared_ptr<watcher> watched;

            static void ended(snib_lease *raw, const snib_error *why, void *arg) noexcept
            {
                std::unique_ptr<pending> self(static_cast<pending *>(arg));
                if (raw != nullptr) {
                    self->done(result(lease(raw, std::move(self->watched))));
                } else {
                    self->done(result(snib::error(*why)));
                }
            }
        };

        struct pending_all {
            std::function<void(std::vector<lease>, const snib::error &)> done;
            std::shared_ptr<watcher> watched;
            std::vector<lease> granted;

            static void ended(snib_lease *const leases[], std::size_t n, const snib_error *why,
                              void *arg) noexcept
            {
                std::unique_ptr<pending_all> self(static_cast<pending_all *>(arg));
                for (std::size_t i = 0; i < n; i++) {
                    self->granted.push_back(lease(leases[i], self->watched));
                }
                self->done(std::move(self->granted),
                           why != nullptr ? snib::error(*why) : snib::error(SNIB_OK));
            }
        };

        struct findings {
            std::vector<finding> all;
            std::exception_ptr failed;

            static int keep(const snib_finding *one, void *arg) noexcept
            {
                findings *self = static_cast<findings *>(arg);
                try {
                    finding copy{
                        static_cast<snib::verdict>(one->verdict), one->about, one->text, {}};
                    if (one->remedy != nullptr) {
                        copy.remedy = one->remedy;
                    }
                    self->all.push_back(std::move(copy));
                    return 0;
                } catch (...) {
                    self->failed = std::current_exception();
                    return 1;
                }
            }
        };

        struct sights {
            std::vector<seen> all;
            std::exception_ptr failed;

            static int keep(const snib_seen *one, void *arg) noexcept
            {
                sights *self = static_cast<sights *>(arg);
                try {
                    self->all.push_back(copy(*one));
                    return 0;
                } catch (...) {
                    self->failed = std::current_exception();
                    return 1;
                }
            }

            static seen copy(const snib_seen &one)
            {
                seen out{
                    one.name,  one.who,     one.label, one.token, static_cast<snib::mode>(one.mode),
                    one.place, one.permits, {},        {}};
                if (one.since_unix_ms != 0) {
                    out.since =
                        std::chrono::system_clock::time_point(milliseconds(one.since_unix_ms));
                }
                if (one.left_ms >= 0) {
                    out.left = milliseconds(one.left_ms);
                }
                return out;
            }
        };

        using look_fn = int(::snib *, const char *, snib_seen_fn *, void *, snib_error *);

        std::vector<seen> look(look_fn *how, const std::string &name)
        {
            sights out;
            snib_error why;
            if (how(raw_, checked(name), sights::keep, &out, &why) < 0) {
                throw snib::error(why);
            }
            if (out.failed) {
                std::rethrow_exception(out.failed);
            }
            return std::move(out.all);
        }

        result attempt(const std::string &name, const snib_options &raw,
                       const options &how) noexcept
        {
            snib_lease *granted = nullptr;
            snib_error why;
            if (name.find('\0') != std::string::npos) {
                return snib::error(SNIB_EINVAL, "the name of the lock has a NUL byte in it");
            }
            if (snib_acquire(&granted, raw_, name.c_str(), &raw, &why) < 0) {
                return snib::error(why);
            }
            return lease(granted, how.watcher_);
        }

        ::snib *raw_ = nullptr;
    };

    /* ---- A mutex ------------------------------------------------------------------------ */

    /*
     * A lock with the face of std::mutex:
     *
     *     snib::mutex mutex(client, "nightly-report");
     *     std::lock_guard<snib::mutex> guard(mutex);
     *     work(mutex.held()->token());
     *
     * Any number of threads may use one object, each for itself; as with std::mutex, the thread
     * that locks is the one that unlocks, and a thread that has it must not lock it again. The
     * client must outlive it.
     *
     * What std::mutex does not know: lock() can fail, and a lock can be lost while it is held.
     * lock() throws snib::error: SNIB_EDEADLK if this thread has it already, SNIB_EBUSY if the
     * wait of the options ran out, SNIB_ECANCELED if their stop_fd ended it, and what else
     * snib_acquire answers; std::bad_alloc; then it is not locked. unlock() does not throw. That
     * the lock had been lost before (SNIB_ELOST), or that the engine did not answer
     * (SNIB_EUNKNOWN), is told to the function of on_unlock, and to nobody if there is none.
     */
    class mutex
    {
      public:
        mutex(client &from, const std::string &name, const options &how = options())
            : client_(from), name_(name), how_(how)
        {
        }

        mutex(const mutex &) = delete;
        mutex &operator=(const mutex &) = delete;

        /* Before the first lock. Called inside unlock() when that has news; must not throw. */
        mutex &on_unlock(std::function<void(const snib::error &)> told)
        {
            told_ = std::move(told);
            return *this;
        }

        void lock()
        {
            refuse_twice();
            keep(client_.acquire(name_, how_));
        }

        /* False: another has it. Whatever else hinders is thrown, as by lock(). */
        [[nodiscard]] bool try_lock()
        {
            refuse_twice();
            result tried = client_.try_acquire(name_, how_);
            if (!tried && tried.error().code() == SNIB_EBUSY) {
                return false;
            }
            keep(std::move(tried).value());
            return true;
        }

        void unlock() noexcept
        {
            lease mine;
            {
                std::lock_guard<std::mutex> inside(guard_);
                auto found = held_.find(std::this_thread::get_id());
                if (found == held_.end()) {
                    return;
                }
                mine = std::move(found->second);
                held_.erase(found);
            }
            snib_error why;
            if (mine.release(&why) < 0 && told_) {
                told_(snib::error(why));
            }
        }

        /* The calling thread's lease: its token, state and time left. nullptr: not locked. */
        [[nodiscard]] lease *held() noexcept
        {
            std::lock_guard<std::mutex> inside(guard_);
            auto found = held_.find(std::this_thread::get_id());
            return found != held_.end() ? &found->second : nullptr;
        }

      private:
        void refuse_twice()
        {
            if (held() != nullptr) {
                throw snib::error(SNIB_EDEADLK, "this thread has locked it already");
            }
        }

        /* By thread: one that lost its lock may still be at work when the next one has it. */
        void keep(lease granted)
        {
            std::lock_guard<std::mutex> inside(guard_);
            held_[std::this_thread::get_id()] = std::move(granted);
        }

        client &client_;
        const std::string name_;
        const options how_;
        std::function<void(const snib::error &)> told_;
        std::mutex guard_;
        std::map<std::thread::id, lease> held_;
    };

    /* ---- The resource's side, for files ------------------------------------------------- */

    /* Admit `token` to `path`; throws SNIB_ELOST if a larger one, error::holder_token(), was
     * admitted before. */
    static void guard(const std::string &path, std::uint64_t token)
    {
        snib_error why;
        if (snib_guard(checked(path), token, &why) < 0) {
            throw error(why);
        }
    }
};

#endif
