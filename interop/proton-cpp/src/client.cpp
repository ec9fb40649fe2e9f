#include "client.hpp"

#include <cstdlib>
#include <utility>

#include <proton/codec/encoder.hpp>
#include <proton/error_condition.hpp>
#include <proton/source.hpp>
#include <proton/source_options.hpp>
#include <proton/ssl.hpp>
#include <proton/symbol.hpp>
#include <proton/target_options.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>
#include <proton/value.hpp>

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    if (!value) throw std::runtime_error(std::string("not set: ") + name);
    return value;
}

std::string text(const proton::error_condition& condition) {
    return condition.name() + ": " + condition.description();
}

proton::delivery_mode mode(bool pre_settled) {
    return pre_settled ? proton::delivery_mode::AT_MOST_ONCE : proton::delivery_mode::AT_LEAST_ONCE;
}

template <class Id>
std::size_t place(Id id) {
    return static_cast<std::size_t>(id);
}

proton::connection_options log_in_options(const setting& where, const log_in& who) {
    proton::connection_options options;
    // A subscriber is known again by it.
    options.container_id("proton-cpp-" + where.queue);
    if (!where.virtual_host.empty()) options.virtual_host(where.virtual_host);
    options.sasl_enabled(true);
    if (who.user.empty()) {
        options.sasl_allowed_mechs("ANONYMOUS");
    } else {
        options.sasl_allowed_mechs("PLAIN").sasl_allow_insecure_mechs(true);
        options.user(who.user).password(who.key);
    }
    if (where.tls) {
        options.ssl_client_options(
            proton::ssl_client_options(where.ca, proton::ssl::VERIFY_PEER_NAME));
    }
    return options;
}

}  // namespace

setting setting::from_environment() {
    setting made;
    made.tls = variable("FERRYBUS_TRANSPORT") == "tls";
    made.url = (made.tls ? "amqps://" : "amqp://") + variable("FERRYBUS_HOST") + ":" +
               variable("FERRYBUS_PORT");
    made.ca = variable("FERRYBUS_CA");
    made.queue = variable("FERRYBUS_QUEUE");
    made.key_name = variable("FERRYBUS_KEY_NAME");
    made.key = variable("FERRYBUS_KEY");
    return made;
}

client::client(const setting& where, const log_in& who) {
    thread_ = std::thread([this, where, who] { serve(where.url, log_in_options(where, who)); });
    try {
        wait([this] { return work_ != nullptr; }, "the connection to open");
    } catch (...) {
        container_.stop();
        thread_.join();
        throw;
    }
}

client::~client() {
    try {
        run([this] { connection_.close(); });
    } catch (const std::exception&) {
        container_.stop();  // it has ended already, or is about to
    }
    thread_.join();
}

// Everything that Proton makes is made, used and dropped between the first and the last line.
void client::serve(const std::string& url, const proton::connection_options& options) {
    try {
        container_.connect(url, proton::connection_options(options).handler(*this));
        container_.run();
    } catch (const std::exception& error) {
        fail(error.what());
    }
    std::lock_guard<std::mutex> guard(lock_);
    ended_ = true;
    work_ = nullptr;
    deliveries_.clear();
    senders_.clear();
    receivers_.clear();
    connection_ = proton::connection();
    changed_.notify_all();
}

void client::run(const step& todo) {
    std::unique_lock<std::mutex> guard(lock_);
    if (work_ != nullptr && work_->add([this] { take_step(); })) {
        step_ = &todo;
        changed_.wait(guard, [this] { return step_ == nullptr || ended_; });
        if (step_ == nullptr) {
            if (!step_error_.empty()) throw std::runtime_error(step_error_);
            return;
        }
        step_ = nullptr;
    }
    throw refused(failure_.empty() ? "the connection has ended" : failure_);
}

void client::take_step() {
    std::unique_lock<std::mutex> guard(lock_);
    const step* todo = step_;
    if (todo == nullptr) return;
    guard.unlock();
    std::string error;
    try {
        (*todo)();
    } catch (const std::exception& thrown) {
        error = std::string("in Proton: ") + thrown.what();
    }
    guard.lock();
    step_error_ = error;
    step_ = nullptr;
    changed_.notify_all();
}

template <class Check>
void client::wait(Check check, const char* what) {
    std::unique_lock<std::mutex> guard(lock_);
    const auto is_over = [&] { return ended_ || !failure_.empty() || check(); };
    if (!changed_.wait_for(guard, WAIT, is_over)) {
        throw std::runtime_error(std::string("waited in vain for ") + what);
    }
    if (!failure_.empty()) throw refused(failure_);
    if (!check()) throw refused(std::string("the connection ended before ") + what);
}

int client::read(const int& counter) {
    std::lock_guard<std::mutex> guard(lock_);
    return counter;
}

void client::count(int& counter) {
    std::lock_guard<std::mutex> guard(lock_);
    ++counter;
    changed_.notify_all();
}

void client::fail(const std::string& why) {
    std::lock_guard<std::mutex> guard(lock_);
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
}

sender_id client::open(const std::string& address, const proton::sender_options& options) {
    const int before = read(opened_);
    sender_id made{};
    run([&] {
        made = sender_id{senders_.size()};
        senders_.push_back(connection_.open_sender(address, options));
    });
    wait([&] { return opened_ > before; }, "the sender to open");
    return made;
}

receiver_id client::open(const std::string& address, const proton::receiver_options& options) {
    const int before = read(opened_);
    receiver_id made{};
    run([&] {
        made = receiver_id{receivers_.size()};
        receivers_.push_back(connection_.open_receiver(address, options));
    });
    wait([&] { return opened_ > before; }, "the receiver to open");
    return made;
}

sender_id client::open_sender(const std::string& address, bool pre_settled) {
    return open(address, proton::sender_options().delivery_mode(mode(pre_settled)));
}

sender_id client::open_relay() {
    return open("", proton::sender_options().target(proton::target_options().anonymous(true)));
}

receiver_id client::open_receiver(const std::string& address, bool pre_settled,
                                  const std::string& reply_target) {
    proton::receiver_options options;
    options.credit_window(0).auto_accept(false).delivery_mode(mode(pre_settled));
    if (!reply_target.empty()) {
        options.target(proton::target_options().address(reply_target));
    }
    return open(address, options);
}

receiver_id client::open_service_bus_receiver(const std::string& address) {
    proton::receiver_options options;
    options.credit_window(0).auto_accept(false);
    options.properties({{proton::symbol("com.microsoft:receiver-name"), "proton"}});
    return open(address, options);
}

receiver_id client::open_subscriber(const std::string& topic, const std::string& name,
                                    const std::string& selector) {
    proton::source_options source;
    source.durability_mode(proton::source::UNSETTLED_STATE);
    source.expiry_policy(proton::source::NEVER);
    if (!selector.empty()) {
        proton::value described;
        proton::codec::encoder encoder(described);
        encoder << proton::codec::start::described()
                << proton::symbol("apache.org:selector-filter:string") << selector
                << proton::codec::finish();
        proton::source::filter_map filters;
        filters.put("selector", described);
        source.filters(filters);
    }
    proton::receiver_options options;
    options.credit_window(0).auto_accept(false).name(name).source(source);
    return open(topic, options);
}

void client::detach(receiver_id receiver) {
    run([&] { receivers_.at(place(receiver)).detach(); });
}

void client::close(sender_id sender) {
    run([&] { senders_.at(place(sender)).close(); });
}

void client::close(receiver_id receiver) {
    run([&] { receivers_.at(place(receiver)).close(); });
}

void client::send(sender_id sender, const proton::message& message) {
    const int refusals = read(rejected_);
    send_all(sender, {message}, 1);
    std::lock_guard<std::mutex> guard(lock_);
    if (rejected_ > refusals) throw refused(rejection_);
}

void client::send_all(sender_id sender, const std::vector<proton::message>& messages, int answered) {
    const int before = read(accepted_) + read(rejected_);
    {
        std::lock_guard<std::mutex> guard(lock_);
        to_send_.insert(to_send_.end(), messages.begin(), messages.end());
    }
    run([&] { pump(senders_.at(place(sender))); });
    wait([&] { return to_send_.empty() && accepted_ + rejected_ >= before + answered; }, "outcomes");
}

void client::pump(proton::sender& sender) {
    std::lock_guard<std::mutex> guard(lock_);
    while (!to_send_.empty() && sender.credit() > 0) {
        sender.send(to_send_.front());
        to_send_.pop_front();
    }
    changed_.notify_all();
}

received client::receive(receiver_id receiver) {
    add_credit(receiver, 1);
    return next();
}

bool client::is_empty(receiver_id receiver) {
    add_credit(receiver, 1);
    std::unique_lock<std::mutex> guard(lock_);
    changed_.wait_for(guard, SILENCE, [&] { return !failure_.empty() || !arrived_.empty(); });
    if (!failure_.empty()) throw refused(failure_);
    return arrived_.empty();
}

void client::add_credit(receiver_id receiver, int credit) {
    run([&] { receivers_.at(place(receiver)).add_credit(credit); });
}

received client::next() {
    wait([&] { return !arrived_.empty(); }, "a message");
    std::lock_guard<std::mutex> guard(lock_);
    received first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
}

std::size_t client::waiting() {
    std::lock_guard<std::mutex> guard(lock_);
    return arrived_.size();
}

void client::drain(receiver_id receiver) {
    const int before = read(drained_);
    run([&] { receivers_.at(place(receiver)).drain(); });
    wait([&] { return drained_ > before; }, "the answer to drain");
}

void client::settle(delivery_id delivery, const std::function<void(proton::delivery&)>& how) {
    run([&] {
        how(deliveries_.at(delivery));
        deliveries_.erase(delivery);
    });
}

void client::accept(delivery_id delivery) {
    settle(delivery, [](proton::delivery& held) { held.accept(); });
}
void client::reject(delivery_id delivery) {
    settle(delivery, [](proton::delivery& held) { held.reject(); });
}
void client::release(delivery_id delivery) {
    settle(delivery, [](proton::delivery& held) { held.release(); });
}
void client::modify(delivery_id delivery) {
    settle(delivery, [](proton::delivery& held) { held.modify(); });
}

int client::accepted() { return read(accepted_); }

void client::on_connection_open(proton::connection& connection) {
    connection_ = connection;
    std::lock_guard<std::mutex> guard(lock_);
    work_ = &connection.work_queue();
    changed_.notify_all();
}

void client::on_message(proton::delivery& delivery, proton::message& message) {
    const delivery_id made{delivered_++};
    deliveries_.emplace(made, delivery);
    received one{message, made, delivery.settled()};
    std::lock_guard<std::mutex> guard(lock_);
    arrived_.push_back(std::move(one));
    changed_.notify_all();
}

void client::on_tracker_reject(proton::tracker&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++rejected_;
    rejection_ = "rejected";
    changed_.notify_all();
}

void client::on_tracker_release(proton::tracker&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++rejected_;
    rejection_ = "released";
    changed_.notify_all();
}

void client::on_sender_open(proton::sender&) { count(opened_); }
void client::on_receiver_open(proton::receiver&) { count(opened_); }
void client::on_tracker_accept(proton::tracker&) { count(accepted_); }
void client::on_receiver_drain_finish(proton::receiver&) { count(drained_); }
void client::on_sendable(proton::sender& sender) { pump(sender); }

void client::on_sender_error(proton::sender& sender) { fail(text(sender.error())); }
void client::on_receiver_error(proton::receiver& receiver) { fail(text(receiver.error())); }
void client::on_transport_error(proton::transport& transport) { fail(text(transport.error())); }
void client::on_connection_error(proton::connection& connection) { fail(text(connection.error())); }
void client::on_error(const proton::error_condition& condition) { fail(text(condition)); }
