#include "client.hpp"

#include <cstdlib>
#include <future>

#include <proton/connection_options.hpp>
#include <proton/error_condition.hpp>
#include <proton/reconnect_options.hpp>
#include <proton/sender_options.hpp>
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
    proton::connection_options options;
    options.handler(*this).sasl_enabled(true);
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
    container_ = std::make_unique<proton::container>();
    container_->connect(where.url, options);
    thread_ = std::thread([this] { container_->run(); });
    try {
        wait([this] { return connected_; }, "the connection to open");
    } catch (...) {
        container_->stop();
        thread_.join();
        throw;
    }
}

client::~client() {
    if (failure_.empty()) {
        work_->add([this] { connection_.close(); });
    } else {
        container_->stop();
    }
    thread_.join();
}

template <class Check>
void client::wait(Check check, const char* what, seconds limit) {
    std::unique_lock<std::mutex> guard(lock_);
    if (!changed_.wait_for(guard, limit, [&] { return !failure_.empty() || check(); })) {
        throw std::runtime_error(std::string("waited in vain for ") + what);
    }
    throw_if_failed();
}

void client::throw_if_failed() {
    if (!failure_.empty()) throw refused(failure_);
}

void client::fail(const std::string& why) {
    std::lock_guard<std::mutex> guard(lock_);
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
}

void client::run(const std::function<void()>& step) {
    std::promise<void> done;
    work_->add([&] {
        try {
            step();
            done.set_value();
        } catch (...) {
            done.set_exception(std::current_exception());
        }
    });
    done.get_future().get();
}

proton::sender client::open_sender(const std::string& address, bool pre_settled) {
    const int before = opened_;
    proton::sender sender;
    proton::sender_options options;
    options.delivery_mode(pre_settled ? proton::delivery_mode::AT_MOST_ONCE
                                      : proton::delivery_mode::AT_LEAST_ONCE);
    run([&] { sender = connection_.open_sender(address, options); });
    wait([&] { return opened_ > before; }, "the sender to open");
    return sender;
}

proton::sender client::open_relay() {
    const int before = opened_;
    proton::sender sender;
    proton::sender_options options;
    options.target(proton::target_options().anonymous(true));
    run([&] { sender = connection_.open_sender("", options); });
    wait([&] { return opened_ > before; }, "the relay to open");
    return sender;
}

proton::receiver client::open(const std::string& address,
                              const proton::receiver_options& options) {
    const int before = opened_;
    proton::receiver receiver;
    run([&] { receiver = connection_.open_receiver(address, options); });
    wait([&] { return opened_ > before; }, "the receiver to open");
    return receiver;
}

proton::receiver client::open_receiver(const std::string& address, bool pre_settled,
                                       const std::string& reply_target) {
    proton::receiver_options options;
    options.credit_window(0).auto_accept(false);
    options.delivery_mode(pre_settled ? proton::delivery_mode::AT_MOST_ONCE
                                      : proton::delivery_mode::AT_LEAST_ONCE);
    if (!reply_target.empty()) {
        options.target(proton::target_options().address(reply_target));
    }
    return open(address, options);
}

proton::receiver client::open_service_bus_receiver(const std::string& address) {
    proton::receiver_options options;
    options.credit_window(0).auto_accept(false);
    options.properties({{proton::symbol("com.microsoft:receiver-name"), "proton"}});
    return open(address, options);
}

void client::close(proton::link link) {
    run([&] { link.close(); });
}

void client::send(proton::sender sender, const proton::message& message) {
    const int refusals = rejected_;
    send_all(sender, {message}, 1);
    if (rejected_ > refusals) throw refused(rejection_);
}

void client::send_all(proton::sender sender, const std::vector<proton::message>& messages,
                      int answered) {
    const int before = accepted_ + rejected_;
    run([&] {
        to_send_.insert(to_send_.end(), messages.begin(), messages.end());
        pump(sender);
    });
    wait([&] { return to_send_.empty() && accepted_ + rejected_ >= before + answered; },
         "outcomes", seconds{30});
}

void client::pump(proton::sender& sender) {
    std::lock_guard<std::mutex> guard(lock_);
    while (!to_send_.empty() && sender.credit() > 0) {
        sender.send(to_send_.front());
        to_send_.pop_front();
    }
    changed_.notify_all();
}

received client::receive(proton::receiver receiver) {
    add_credit(receiver, 1);
    return next();
}

bool client::is_empty(proton::receiver receiver) {
    add_credit(receiver, 1);
    std::unique_lock<std::mutex> guard(lock_);
    changed_.wait_for(guard, SILENCE, [&] { return !failure_.empty() || !arrived_.empty(); });
    throw_if_failed();
    return arrived_.empty();
}

void client::add_credit(proton::receiver receiver, int credit) {
    run([&] { receiver.add_credit(credit); });
}

received client::next(seconds limit) {
    wait([&] { return !arrived_.empty(); }, "a message", limit);
    std::lock_guard<std::mutex> guard(lock_);
    received first = arrived_.front();
    arrived_.pop_front();
    return first;
}

std::size_t client::waiting() {
    std::lock_guard<std::mutex> guard(lock_);
    return arrived_.size();
}

void client::drain(proton::receiver receiver) {
    const int before = drained_;
    run([&] { receiver.drain(); });
    wait([&] { return drained_ > before; }, "the answer to drain");
}

void client::accept(const proton::delivery& delivery) {
    run([&] { proton::delivery(delivery).accept(); });
}
void client::reject(const proton::delivery& delivery) {
    run([&] { proton::delivery(delivery).reject(); });
}
void client::release(const proton::delivery& delivery) {
    run([&] { proton::delivery(delivery).release(); });
}
void client::modify(const proton::delivery& delivery) {
    run([&] { proton::delivery(delivery).modify(); });
}

int client::accepted() {
    std::lock_guard<std::mutex> guard(lock_);
    return accepted_;
}

void client::on_connection_open(proton::connection& connection) {
    std::lock_guard<std::mutex> guard(lock_);
    connection_ = connection;
    work_ = &connection.work_queue();
    connected_ = true;
    changed_.notify_all();
}

void client::on_sender_open(proton::sender&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++opened_;
    changed_.notify_all();
}

void client::on_receiver_open(proton::receiver&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++opened_;
    changed_.notify_all();
}

void client::on_sendable(proton::sender& sender) { pump(sender); }

void client::on_tracker_accept(proton::tracker&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++accepted_;
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

void client::on_message(proton::delivery& delivery, proton::message& message) {
    std::lock_guard<std::mutex> guard(lock_);
    arrived_.emplace_back(message, delivery);
    changed_.notify_all();
}

void client::on_receiver_drain_finish(proton::receiver&) {
    std::lock_guard<std::mutex> guard(lock_);
    ++drained_;
    changed_.notify_all();
}

void client::on_sender_error(proton::sender& sender) { fail(text(sender.error())); }
void client::on_receiver_error(proton::receiver& receiver) { fail(text(receiver.error())); }
void client::on_transport_error(proton::transport& transport) { fail(text(transport.error())); }
void client::on_connection_error(proton::connection& connection) { fail(text(connection.error())); }
void client::on_error(const proton::error_condition& condition) { fail(text(condition)); }
