// A blocking face on Proton's event-driven C++ API, so that a case reads as a
// sequence of steps. One thread runs the container; every call from a case is
// handed to it through the connection's work queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <proton/connection.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/work_queue.hpp>

using seconds = std::chrono::duration<double>;

constexpr seconds WAIT{10};    // that a message which must come may take
constexpr seconds SILENCE{1};  // after which a queue counts as empty

// What the broker, or the connection, refused.
struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What `lib/external.py` says about the broker.
struct setting {
    std::string url, ca, queue, key_name, key;
    bool tls;
    static setting from_environment();
};

struct log_in {
    std::string user, key;  // both empty: anonymous
};

using received = std::pair<proton::message, proton::delivery>;

class client : public proton::messaging_handler {
  public:
    explicit client(const setting& where, const log_in& who = {});
    ~client() override;

    // Links. They throw `refused` when the broker does not open them.
    proton::sender open_sender(const std::string& address, bool pre_settled = false);
    proton::sender open_relay();
    proton::receiver open_receiver(const std::string& address, bool pre_settled = false,
                                   const std::string& reply_target = "");
    // Says, as a Service Bus SDK would, that the link speaks Service Bus: it is given lock
    // tokens, and its `modified` is read as abandon.
    proton::receiver open_service_bus_receiver(const std::string& address);
    void close(proton::link link);

    // Sends and waits for the outcome; throws `refused` unless it is accepted.
    void send(proton::sender sender, const proton::message& message);
    // Sends all of them as credit comes, and waits until `answered` have an outcome.
    void send_all(proton::sender sender, const std::vector<proton::message>& messages, int answered);

    // Asks for one message more and waits for the next one.
    received receive(proton::receiver receiver);
    bool is_empty(proton::receiver receiver);
    void add_credit(proton::receiver receiver, int credit);
    received next(seconds limit = WAIT);
    void drain(proton::receiver receiver);
    std::size_t waiting();

    void accept(const proton::delivery& delivery);
    void reject(const proton::delivery& delivery);
    void release(const proton::delivery& delivery);
    void modify(const proton::delivery& delivery);

    // Runs `step` on the container's thread and waits until it is done.
    void run(const std::function<void()>& step);

    int accepted();

    void on_connection_open(proton::connection& connection) override;
    void on_sender_open(proton::sender& sender) override;
    void on_receiver_open(proton::receiver& receiver) override;
    void on_sendable(proton::sender& sender) override;
    void on_tracker_accept(proton::tracker& tracker) override;
    void on_tracker_reject(proton::tracker& tracker) override;
    void on_tracker_release(proton::tracker& tracker) override;
    void on_message(proton::delivery& delivery, proton::message& message) override;
    void on_receiver_drain_finish(proton::receiver& receiver) override;
    void on_sender_error(proton::sender& sender) override;
    void on_receiver_error(proton::receiver& receiver) override;
    void on_transport_error(proton::transport& transport) override;
    void on_connection_error(proton::connection& connection) override;
    void on_error(const proton::error_condition& condition) override;

  private:
    proton::receiver open(const std::string& address, const proton::receiver_options& options);
    void fail(const std::string& why);
    void throw_if_failed();
    template <class Check>
    void wait(Check check, const char* what, seconds limit = WAIT);
    void pump(proton::sender& sender);

    std::mutex lock_;
    std::condition_variable changed_;
    std::string failure_;
    bool connected_ = false;
    int opened_ = 0, accepted_ = 0, rejected_ = 0, drained_ = 0;
    std::string rejection_;
    std::deque<proton::message> to_send_;
    std::deque<received> arrived_;
    proton::connection connection_;
    proton::work_queue* work_ = nullptr;
    std::unique_ptr<proton::container> container_;
    std::thread thread_;
};
