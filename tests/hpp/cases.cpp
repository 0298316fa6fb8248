/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of snib.hpp: what C++ adds, and that nothing of it goes astray. What the library does
 * is tested elsewhere.
 *
 *     cases URL FOLDER     all of them; ends with "N passed, N failed"
 *     cases URL FOLDER NAME...
 */
#include <snib.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

using namespace std::chrono_literals;

std::uint64_t token_by_c(::snib *client, const char *name);

/* ---- Harness ---------------------------------------------------------------------------- */

namespace
{

struct failure {
    std::string text;
};

std::string url;
std::string folder;

std::map<std::string, void (*)()> &cases()
{
    static std::map<std::string, void (*)()> all;
    return all;
}

struct registration {
    registration(const char *name, void (*run)())
    {
        cases()[name] = run;
    }
};

#define CASE(name)                                                                                 \
    void name();                                                                                   \
    const registration name##_registered(#name, name);                                             \
    void name()

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            throw failure{std::to_string(__LINE__) + ": " #condition};                             \
        }                                                                                          \
    } while (false)

/* The code a call throws; SNIB_OK if it throws nothing. */
template <class Call> int thrown(Call call)
{
    try {
        call();
        return SNIB_OK;
    } catch (const snib::error &e) {
        return e.code();
    }
}

/* A box with a lid: opened once, waited for by another thread. */
class signal_box
{
  public:
    void open()
    {
        std::lock_guard<std::mutex> hold(mutex_);
        open_ = true;
        changed_.notify_all();
    }

    bool wait()
    {
        std::unique_lock<std::mutex> hold(mutex_);
        return changed_.wait_for(hold, 30s, [this] { return open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

bool is_free(const std::string &name)
{
    snib::client other(url);
    return static_cast<bool>(other.try_acquire(name));
}

/* ---- What the types promise ------------------------------------------------------------- */

static_assert(!std::is_constructible_v<::snib>, "a scope of names, not an object");
static_assert(!std::is_destructible_v<::snib>, "so delete on a C handle does not compile");
static_assert(!std::is_copy_constructible_v<snib::lease>);
static_assert(!std::is_copy_assignable_v<snib::lease>);
static_assert(std::is_nothrow_move_constructible_v<snib::lease>);
static_assert(std::is_nothrow_move_assignable_v<snib::lease>);
static_assert(std::is_nothrow_destructible_v<snib::lease>);
static_assert(!std::is_copy_constructible_v<snib::client>);
static_assert(std::is_nothrow_move_constructible_v<snib::client>);
static_assert(std::is_nothrow_move_assignable_v<snib::client>);
static_assert(std::is_nothrow_destructible_v<snib::client>);
static_assert(std::is_nothrow_copy_constructible_v<snib::error>);
static_assert(std::is_copy_constructible_v<snib::options>);
static_assert(std::is_nothrow_move_constructible_v<snib::result>);
static_assert(!std::is_convertible_v<std::chrono::microseconds, snib::milliseconds>,
              "nothing is rounded");
static_assert(noexcept(std::declval<snib::client &>().try_acquire(std::declval<std::string &>())));

/* ---- Owning ----------------------------------------------------------------------------- */

CASE(a_lease_is_given_back_by_its_destructor)
{
    snib::client client(url);
    {
        snib::lease lease = client.acquire("scope");
        CHECK(lease && lease.token() > 0 && lease.name() == "scope");
        CHECK(lease.state() == snib::state::held);
        CHECK(lease.left() == snib::milliseconds::max());
        CHECK(!is_free("scope"));
    }
    CHECK(is_free("scope"));
}

CASE(a_lease_is_given_back_when_an_exception_passes)
{
    snib::client client(url);
    try {
        snib::lease lease = client.acquire("unwound");
        throw failure{"on purpose"};
    } catch (const failure &) {
    }
    CHECK(is_free("unwound"));
}

CASE(a_moved_lease_is_given_back_once)
{
    snib::client client(url);
    snib::lease first = client.acquire("moved");
    std::uint64_t token = first.token();
    snib::lease second = std::move(first);
    CHECK(!first && first.token() == 0 && first.state() == snib::state::released);
    CHECK(first.release() == SNIB_OK);
    CHECK(second.token() == token && !is_free("moved"));
    CHECK(second.release() == SNIB_OK);
    CHECK(!second && second.release() == SNIB_OK);
    CHECK(is_free("moved"));
}

CASE(moving_onto_a_lease_gives_the_old_one_back)
{
    snib::client client(url);
    snib::lease lease = client.acquire("old");
    lease = client.acquire("new");
    CHECK(is_free("old") && !is_free("new"));
    snib::lease &same = lease;
    lease = std::move(same);
    CHECK(lease && !is_free("new"));
}

CASE(a_lease_outlives_its_client)
{
    snib::lease lease;
    {
        snib::client client(url);
        lease = client.acquire("orphan");
    }
    CHECK(lease && lease.state() == snib::state::released && is_free("orphan"));
}

CASE(a_client_can_be_moved)
{
    snib::client first(url);
    snib::lease lease = first.acquire("carried");
    snib::client second(std::move(first));
    CHECK(!first && second && second.url() == url);
    CHECK(thrown([&] { (void)first.acquire("carried"); }) == SNIB_EINVAL);
    CHECK(thrown([&] { first.dispatch(); }) == SNIB_ESTATE);
    first = std::move(second);
    CHECK(first && first.try_acquire("carried").error().code() == SNIB_EBUSY);
    first.close();
    CHECK(!first && lease.state() == snib::state::released);
}

CASE(a_destructor_in_a_forked_child_frees_nothing)
{
    auto client = std::make_unique<snib::client>(url);
    auto lease = std::make_unique<snib::lease>(client->acquire("forked"));
    pid_t child = fork();
    if (child == 0) {
        bool refused = lease->release() == SNIB_ESTATE;
        lease.reset();
        client.reset();
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(!is_free("forked") && lease->state() == snib::state::held);
}

CASE(both_headers_share_one_handle)
{
    snib::client client(url);
    CHECK(token_by_c(client.get(), "both") > 0);
    CHECK(is_free("both"));
}

/* ---- Errors ----------------------------------------------------------------------------- */

CASE(a_bad_url_is_thrown_with_its_story)
{
    try {
        snib::client client("nonsense:");
        CHECK(false);
    } catch (const std::exception &e) {
        const auto *error = dynamic_cast<const snib::error *>(&e);
        CHECK(error != nullptr && error->code() == SNIB_EINVAL);
        CHECK(std::string(error->name()) == "EINVAL" && error->sys() == 0);
        CHECK(std::string(e.what()).find("nonsense") != std::string::npos);
    }
}

CASE(a_try_does_not_throw_and_names_the_holder)
{
    snib::client client(url), other(url);
    snib::lease lease = client.acquire("busy", snib::options().label("on purpose"));
    snib::result refused = other.try_acquire("busy", snib::options().wait_forever());
    CHECK(!refused && !*refused && refused->token() == 0);
    CHECK(refused.error().code() == SNIB_EBUSY);
    CHECK(refused.error().holder_token() == lease.token());
    CHECK(std::string(refused.error().holder()).find("on purpose") != std::string::npos);
    CHECK(thrown([&] { refused.value(); }) == SNIB_EBUSY);
    CHECK(thrown([&] { (void)other.acquire("busy", snib::options().wait(0ms)); }) == SNIB_EBUSY);

    snib::result granted = other.try_acquire("quiet");
    CHECK(granted && granted.error().code() == SNIB_OK && granted.value().token() > 0);
    snib::lease taken = std::move(granted).value();
    CHECK(taken && !is_free("quiet"));
}

CASE(a_wait_with_a_limit_ends_with_busy)
{
    snib::client client(url);
    snib::lease lease = client.acquire("long");
    auto start = std::chrono::steady_clock::now();
    CHECK(client.try_acquire_for("long", 50ms).error().code() == SNIB_EBUSY);
    CHECK(std::chrono::steady_clock::now() - start >= 50ms);
    CHECK(thrown([&] { (void)client.acquire("long", snib::options().wait(1ms)); }) == SNIB_EBUSY);
}

CASE(what_is_out_of_range_is_refused)
{
    snib::client client(url);
    CHECK(client.try_acquire_for("x", -1ms).error().code() == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire("x", snib::options().wait(-1ms)); }) == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire("x", snib::options().counted(0)); }) == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire(""); }) == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire_all({}); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.acquire_async("x", nullptr); }) == SNIB_EINVAL);
}

CASE(a_text_with_a_nul_byte_is_refused_not_cut)
{
    const std::string text("a\0b", 3);
    snib::client client(url);
    CHECK(thrown([&] { snib::client other(url + text); }) == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire(text); }) == SNIB_EINVAL);
    CHECK(client.try_acquire(text).error().code() == SNIB_EINVAL);
    CHECK(thrown([&] { (void)client.acquire_all({"a", text}); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.acquire_async(text, [](snib::result) {}); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.inspect(text); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.list(text); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.break_lock(text, 1); }) == SNIB_EINVAL);
    CHECK(thrown([&] { snib::guard(folder + "/" + text, 1); }) == SNIB_EINVAL);
    CHECK(thrown([&] { snib::options().label(text); }) == SNIB_EINVAL);
    CHECK(is_free("a"));
}

CASE(a_release_tells_of_a_loss)
{
    snib::client client(url);
    signal_box lost;
    snib::lease lease =
        client.acquire("short", snib::options().max_hold(100ms).on_event([&](const snib::event &e) {
            if (e.state() == snib::state::lost) {
                lost.open();
            }
        }));
    CHECK(lost.wait() && lease.state() == snib::state::lost && lease.left() <= 0ms);
    CHECK(lease.verify(std::nothrow) == SNIB_ELOST);
    CHECK(thrown([&] { lease.verify(); }) == SNIB_ELOST);
    pollfd polled = {lease.fd(), POLLIN, 0};
    CHECK(poll(&polled, 1, 0) == 1);
    snib_error why;
    CHECK(lease.release(&why) == SNIB_ELOST && why.code == SNIB_ELOST);
    CHECK(thrown([&] { lease.fd(); }) == SNIB_ESTATE);
}

/* ---- Options ---------------------------------------------------------------------------- */

CASE(options_reach_the_engine)
{
    snib::client client(url);
    snib::options pool = snib::options().counted(3).label("pool");
    snib::lease one = client.acquire("pool", pool);
    snib::lease two = client.acquire("pool", pool);
    std::vector<snib::seen> all = client.inspect("pool");
    CHECK(all.size() == 2);
    for (const snib::seen &each : all) {
        CHECK(each.name == "pool" && each.label == "pool" && each.permits == 3);
        CHECK(each.mode == snib::mode::counted && each.place == 0);
        CHECK(each.since && each.left == snib::milliseconds::max());
    }
    CHECK(thrown([&] { (void)client.acquire("pool", snib::options().counted(4)); }) == SNIB_EKIND);
    snib::lease reader = client.acquire("book", snib::options().shared());
    CHECK(client.try_acquire("book", snib::options().shared()));
    CHECK(client.try_acquire("book", snib::options().exclusive()).error().code() == SNIB_EBUSY);
    CHECK(client.list("bo").size() == 1 && client.list().size() == 3);
}

CASE(this_thread_is_the_one_that_acquires)
{
    snib::client client(url);
    snib::options mine = snib::options().this_thread();
    snib::lease outer = client.acquire("again", mine);
    CHECK(client.try_acquire("again", mine)->token() == outer.token());
    int code = SNIB_OK;
    std::thread([&] { code = client.try_acquire("again", mine).error().code(); }).join();
    CHECK(code == SNIB_EBUSY);
    int owner = 0;
    CHECK(!client.try_acquire("again", mine.owner(&owner)));
}

CASE(several_names_or_none)
{
    snib::client client(url);
    std::vector<snib::lease> both = client.acquire_all({"right", "left"});
    CHECK(both.size() == 2 && both[0].name() == "right" && both[1].name() == "left");
    CHECK(thrown([&] {
              (void)client.acquire_all({"middle", "left"}, snib::options().wait(0ms));
          }) == SNIB_EBUSY);
    CHECK(is_free("middle"));
    both.clear();
    CHECK(is_free("left") && is_free("right"));
}

/* ---- Functions -------------------------------------------------------------------------- */

CASE(an_asynchronous_acquire_calls_its_function_once)
{
    snib::client client(url);
    std::promise<snib::lease> promise;
    snib::ticket ticket = client.acquire_async(
        "later", [&](snib::result granted) { promise.set_value(std::move(granted).value()); });
    snib::lease lease = promise.get_future().get();
    CHECK(ticket != 0 && lease.token() > 0 && !is_free("later"));
    CHECK(!client.cancel(ticket));
}

CASE(a_result_nobody_takes_gives_the_lock_back)
{
    snib::client client(url);
    signal_box done;
    client.acquire_async("untaken", [&](snib::result) { done.open(); });
    CHECK(done.wait());
    CHECK(client.try_acquire_for("untaken", 30s));
}

CASE(a_cancelled_wait_is_told)
{
    snib::client client(url);
    snib::lease lease = client.acquire("queue");
    std::promise<int> code;
    snib::ticket ticket = client.acquire_async(
        "queue", [&](snib::result refused) { code.set_value(refused.error().code()); });
    CHECK(client.cancel(ticket) && code.get_future().get() == SNIB_ECANCELED);
    CHECK(!client.cancel(ticket));
}

CASE(closing_ends_pending_waits)
{
    snib::client client(url);
    snib::lease lease = client.acquire("queue");
    int calls = 0, code = SNIB_OK;
    client.acquire_async("queue", [&](snib::result refused) {
        calls++;
        code = refused.error().code();
    });
    client.close();
    CHECK(calls == 1 && code == SNIB_ECANCELED);
}

CASE(functions_run_in_dispatch_once_it_was_asked_for)
{
    snib::client client(url);
    int fd = client.events();
    std::thread::id ran;
    snib::lease lease;
    client.acquire_async("looped", [&](snib::result granted) {
        ran = std::this_thread::get_id();
        lease = std::move(granted).value();
    });
    pollfd polled = {fd, POLLIN, 0};
    CHECK(poll(&polled, 1, 30000) == 1 && client.dispatch() == 1);
    CHECK(ran == std::this_thread::get_id() && lease);
    CHECK(client.dispatch() == 0);
    snib::client late(url);
    CHECK(late.acquire("x") && thrown([&] { late.events(); }) == SNIB_ESTATE);
    CHECK(thrown([&] { late.dispatch(); }) == SNIB_ESTATE);
}

CASE(a_waiter_hears_who_is_in_the_way)
{
    snib::client client(url), other(url);
    snib::lease lease = client.acquire("heard");
    signal_box waits;
    std::string why;
    std::promise<void> done;
    std::atomic<snib::ticket> of_event{0};
    snib::ticket ticket = other.acquire_async(
        "heard", [&](snib::result) { done.set_value(); },
        snib::options().on_event([&](const snib::event &e) {
            if (e.state() == snib::state::waiting) {
                why = e.why();
                of_event = e.ticket();
                waits.open();
            }
        }));
    CHECK(waits.wait() && why.find("behind") == 0 && of_event == ticket);
    lease.release();
    done.get_future().get();
}

/* What a function has captured goes when it can be called no more, and not before. */
CASE(a_function_lives_as_long_as_it_can_be_called)
{
    snib::client client(url);
    auto captured = std::make_shared<int>(0);
    snib::lease lease;
    {
        snib::options how;
        how.on_event([captured](const snib::event &) { ++*captured; });
        lease = client.acquire("captured", how);
        CHECK(client.try_acquire("captured", how).error().code() == SNIB_EBUSY);
    }
    CHECK(captured.use_count() == 2);
    snib::lease moved = std::move(lease);
    CHECK(captured.use_count() == 2);
    moved.release();
    CHECK(captured.use_count() == 1);

    signal_box done;
    client.acquire_async("captured", [captured, &done](snib::result) { done.open(); });
    CHECK(done.wait());
    client.close();
    CHECK(captured.use_count() == 1);
    CHECK(thrown([&] { client.acquire_async("captured", [captured](snib::result) {}); }) < 0);
    CHECK(captured.use_count() == 1);
}

CASE(a_function_may_release_its_own_lease)
{
    snib::client client(url);
    signal_box ready, released;
    auto captured = std::make_shared<std::string>("still here");
    std::string after;
    snib::lease lease = client.acquire(
        "own", snib::options().max_hold(50ms).on_event([&, captured](const snib::event &e) {
            if (e.state() == snib::state::lost && ready.wait()) {
                lease.release();
                after = *captured;
                released.open();
            }
        }));
    ready.open();
    CHECK(released.wait() && after == "still here");
    client.close();
    CHECK(!lease && captured.use_count() == 1);
}

CASE(a_function_may_close_the_client)
{
    auto client = std::make_unique<snib::client>(url);
    signal_box ready, closed;
    client->acquire_async("closing", [&](snib::result granted) {
        if (ready.wait()) {
            snib::lease lease = std::move(granted).value();
            client.reset();
            closed.open();
        }
    });
    ready.open();
    CHECK(closed.wait() && is_free("closing"));
}

CASE(several_names_are_granted_by_one_call)
{
    snib::client client(url);
    std::promise<std::vector<snib::lease>> promise;
    snib::ticket ticket = client.acquire_all_async(
        {"right", "left"}, [&](std::vector<snib::lease> granted, const snib::error &why) {
            CHECK(why.code() == SNIB_OK);
            promise.set_value(std::move(granted));
        });
    std::vector<snib::lease> both = promise.get_future().get();
    CHECK(ticket != 0 && !client.cancel(ticket));
    CHECK(both.size() == 2 && both[0].name() == "right" && both[1].name() == "left");
    CHECK(!is_free("left") && !is_free("right"));
    both.clear();
    CHECK(is_free("left") && is_free("right"));
}

CASE(several_names_are_cancelled_by_one_ticket)
{
    snib::client client(url), other(url);
    snib::lease held = other.acquire("right");
    std::promise<int> code;
    snib::ticket ticket = client.acquire_all_async(
        {"right", "left"}, [&](std::vector<snib::lease> granted, const snib::error &why) {
            code.set_value(granted.empty() ? why.code() : SNIB_OK);
        });
    CHECK(client.cancel(ticket) && code.get_future().get() == SNIB_ECANCELED);
    CHECK(client.try_acquire_for("left", 30s));
    CHECK(thrown([&] {
              client.acquire_all_async({"a", "a"}, [](auto, const auto &) {});
          }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.acquire_all_async({"a"}, nullptr); }) == SNIB_EINVAL);
}

CASE(a_release_without_waiting_tells_its_answer)
{
    snib::client client(url);
    auto captured = std::make_shared<int>(0);
    std::promise<int> code;
    snib::lease lease = client.acquire("left behind");
    lease.release_async([&, captured](const snib::error &why) { code.set_value(why.code()); });
    CHECK(!lease && code.get_future().get() == SNIB_OK && is_free("left behind"));
    CHECK(thrown([&] { lease.release_async([](const snib::error &) {}); }) == SNIB_EINVAL);
    lease = client.acquire("left behind");
    CHECK(thrown([&] { lease.release_async(nullptr); }) == SNIB_EINVAL && lease);
    client.close();
    CHECK(thrown([&] { lease.release_async([captured](const snib::error &) {}); }) == SNIB_ESTATE &&
          lease);
    CHECK(captured.use_count() == 1);
}

CASE(a_readable_descriptor_ends_a_wait)
{
    snib::client client(url);
    snib::lease lease = client.acquire("stopped");
    int ends[2];
    CHECK(pipe(ends) == 0);
    std::promise<int> code;
    std::thread waits([&] {
        code.set_value(
            thrown([&] { (void)client.acquire("stopped", snib::options().stop_fd(ends[0])); }));
    });
    CHECK(write(ends[1], "x", 1) == 1 && code.get_future().get() == SNIB_ECANCELED);
    waits.join();
    close(ends[0]);
    close(ends[1]);
}

/* ---- While holding ---------------------------------------------------------------------- */

CASE(a_lease_is_renewed_by_hand)
{
    snib::client client(url);
    snib::lease lease = client.acquire("renewed", snib::options().no_renew().ttl(20s));
    snib::milliseconds left = lease.left();
    std::this_thread::sleep_for(20ms);
    lease.renew();
    CHECK(lease.renew(std::nothrow, 40s) == SNIB_OK && lease.left() > left);
    CHECK(lease.ttl() == 0ms); /* a file lock is no lease */
    CHECK(thrown([&] { lease.renew(-1ms); }) == SNIB_EINVAL);
    CHECK(lease.renew(std::nothrow, 1ms) == SNIB_EINVAL);
    CHECK(thrown([&] { (void)lease.handle(); }) == SNIB_ENOTSUP);
    lease.release();
    CHECK(thrown([&] { lease.renew(); }) == SNIB_EINVAL && lease.ttl() == 0ms);
}

/* ---- A mutex ---------------------------------------------------------------------------- */

CASE(a_guard_of_the_standard_library_holds_the_lock)
{
    snib::client client(url);
    snib::mutex mutex(client, "mutex");
    CHECK(mutex.held() == nullptr);
    {
        std::lock_guard<snib::mutex> guard(mutex);
        CHECK(mutex.held() != nullptr && mutex.held()->token() > 0 && !is_free("mutex"));
    }
    CHECK(mutex.held() == nullptr && is_free("mutex"));
    std::unique_lock<snib::mutex> later(mutex, std::defer_lock);
    CHECK(!later && is_free("mutex"));
    CHECK(later.try_lock() && !is_free("mutex"));
    later.unlock();
    CHECK(is_free("mutex"));
    snib::mutex second(client, "second");
    std::scoped_lock<snib::mutex, snib::mutex> both(mutex, second);
    CHECK(!is_free("mutex") && !is_free("second"));
}

CASE(threads_of_one_mutex_exclude_each_other)
{
    snib::client client(url);
    snib::mutex mutex(client, "turns");
    int inside = 0, turns = 0; /* not atomic: the lock is what protects them */
    bool alone = true;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int j = 0; j < 50; j++) {
                std::lock_guard<snib::mutex> guard(mutex);
                alone = alone && ++inside == 1;
                turns++;
                inside--;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(alone && turns == 200 && is_free("turns"));
}

CASE(a_mutex_says_why_it_does_not_lock)
{
    snib::client client(url), other(url);
    snib::mutex mutex(client, "refused", snib::options().wait(10ms));
    {
        snib::lease lease = other.acquire("refused");
        CHECK(!mutex.try_lock());
        CHECK(thrown([&] { mutex.lock(); }) == SNIB_EBUSY && mutex.held() == nullptr);
    }
    std::lock_guard<snib::mutex> guard(mutex);
    CHECK(thrown([&] { mutex.lock(); }) == SNIB_EDEADLK);
    CHECK(thrown([&] { (void)mutex.try_lock(); }) == SNIB_EDEADLK);
    snib::mutex nameless(client, "");
    CHECK(thrown([&] { (void)nameless.try_lock(); }) == SNIB_EINVAL);
    nameless.unlock(); /* nothing to give back */
}

/* The one who lost it is still at work when the next one comes. */
CASE(a_mutex_tells_at_the_unlock_that_it_was_lost)
{
    snib::client client(url);
    signal_box lost;
    std::vector<int> told;
    snib::mutex mutex(client, "lost", snib::options().max_hold(50ms).on_event([&](const auto &e) {
        if (e.state() == snib::state::lost) {
            lost.open();
        }
    }));
    mutex.on_unlock([&](const snib::error &why) { told.push_back(why.code()); });
    mutex.lock();
    std::uint64_t token = mutex.held()->token();
    CHECK(lost.wait());
    std::uint64_t next = 0;
    std::thread([&] {
        std::lock_guard<snib::mutex> guard(mutex);
        next = mutex.held()->token();
    }).join();
    CHECK(next > token && mutex.held()->token() == token);
    mutex.unlock();
    CHECK(!told.empty() && told.back() == SNIB_ELOST); /* the next one may have been slow too */
}

/* ---- See, mend, guard ------------------------------------------------------------------- */

CASE(a_lock_is_broken_by_its_token)
{
    snib::client client(url), other(url);
    snib::lease lease = client.acquire("stuck");
    CHECK(thrown([&] { other.break_lock("stuck", lease.token() + 1); }) == SNIB_ELOST);
    CHECK(thrown([&] { other.break_lock("stuck", lease.token()); }) == SNIB_EBUSY);
    CHECK(lease.state() == snib::state::held);
    CHECK(other.has(SNIB_TRAIT_FAIR | SNIB_TRAIT_AT_ONCE) && !other.has(SNIB_TRAIT_LEASED));
}

CASE(an_examination_has_findings)
{
    snib::client client(url);
    std::vector<snib::finding> all = client.examine();
    CHECK(!all.empty() && !all[0].about.empty() && !all[0].text.empty());
    CHECK(all[0].verdict >= snib::verdict::good && all[0].verdict <= snib::verdict::bad);
}

CASE(rights_are_a_line_for_the_server)
{
    CHECK(snib::client("redis://me:x@h").rights().find("ACL SETUSER me on >PASSWORD ") == 0);
    CHECK(thrown([&] { (void)snib::client(url).rights(); }) == SNIB_ENOTSUP);
}

CASE(the_counters_are_those_of_the_client)
{
    snib::client client(url);
    snib::lease lease = client.acquire("counted");
    CHECK(!client.try_acquire("counted"));
    snib_stats stats = client.stats();
    CHECK(stats.acquired == 1 && stats.busy == 1 && stats.held >= 1 && stats.waiting == 0);
    client.close();
    CHECK(thrown([&] { (void)client.stats(); }) == SNIB_EINVAL);
}

CASE(what_is_not_a_handle_is_thrown)
{
    snib::client client(url);
    CHECK(thrown([&] { client.give_back("nonsense"); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.give_back(std::string("a\0b", 3)); }) == SNIB_EINVAL);
    CHECK(thrown([&] { client.give_back("snib1 0 1 00112233445566778899aabbccddeeff x"); }) ==
          SNIB_ENOTSUP); /* on file: */
}

CASE(a_guard_refuses_an_older_token)
{
    snib::client client(url);
    std::uint64_t older = client.acquire("guarded").token();
    std::uint64_t newer = client.acquire("guarded").token();
    snib::guard(folder + "/data", older);
    snib::guard(folder + "/data", newer);
    try {
        snib::guard(folder + "/data", older);
        CHECK(false);
    } catch (const snib::error &e) {
        CHECK(e.code() == SNIB_ELOST && e.holder_token() == newer);
    }
    snib::guard(folder + "/data", newer);
}

/* ---- Running them ----------------------------------------------------------------------- */

bool passes(const char *name, void (*run)())
{
    std::string why;
    try {
        run();
        std::printf("ok %s\n", name);
        return true;
    } catch (const failure &f) {
        why = f.text;
    } catch (const std::exception &e) {
        why = e.what();
    }
    std::printf("not ok %s: %s\n", name, why.c_str());
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    if (argc < 3) {
        std::fprintf(stderr, "usage: cases URL FOLDER [NAME...]\n");
        return 64;
    }
    url = argv[1];
    folder = argv[2];
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    for (const auto &[name, run] : cases()) {
        bool wanted = argc == 3;
        for (int i = 3; i < argc; i++) {
            wanted = wanted || name == argv[i];
        }
        if (wanted) {
            ++(passes(name.c_str(), run) ? passed : failed);
        }
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
