// A blocking interface over Proton's event-driven C++ API, so that a case reads as a
// sequence of steps.
//
// Two threads: the one that plays the case, and the one that runs the container.
// Proton counts the references to its connections, links and deliveries without
// atomics, so that even copying or dropping one is for the container's thread
// alone. They live in tables that only that thread touches; a case holds their
// numbers. Messages own all they are made of and move between the threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/sender_options.hpp>
#include <proton/work_queue.hpp>

using seconds = std::chrono::duration<double>;

constexpr seconds WAIT{30};    // that a message which must come may take
constexpr seconds SILENCE{1};  // after which a queue counts as empty

// What the broker, or the connection, refused.
struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What `lib/external.py` says about the broker.
struct setting {
    std::string url, ca, queue, key_name, key;
    bool tls;
    std::string virtual_host = "";  // empty: Proton names the host of the URL
    static setting from_environment();
};

struct log_in {
    std::string user, key;  // both empty: anonymous
};

// Places in the client's tables.
enum class sender_id : std::size_t {};
enum class receiver_id : std::size_t {};
enum class delivery_id : std::size_t {};

struct received {
    proton::message message;
    delivery_id delivery;
    bool settled;  // by the sender, before it was sent
};

class client : private proton::messaging_handler {
  public:
    explicit client(const setting& where, const log_in& who = {});
    ~client() override;

    // Links. They throw `refused` when the broker does not open them.
    sender_id open_sender(const std::string& address, bool pre_settled = false);
    sender_id open_relay();
    receiver_id open_receiver(const std::string& address, bool pre_settled = false,
                              const std::string& reply_target = "");
    // Says, as a Service Bus SDK would, that the link speaks Service Bus: it is given lock
    // tokens, and its `modified` is read as abandon.
    receiver_id open_service_bus_receiver(const std::string& address);
    // Receives from a topic, by a subscription of this name that stays.
    receiver_id open_subscriber(const std::string& topic, const std::string& name,
                                const std::string& selector = "");
    void detach(receiver_id receiver);
    void close(sender_id sender);
    void close(receiver_id receiver);

    // Sends and waits for the outcome; throws `refused` unless it is accepted.
    void send(sender_id sender, const proton::message& message);
    // Sends all of them as credit comes, and waits until `answered` have an outcome.
    void send_all(sender_id sender, const std::vector<proton::message>& messages, int answered);

    // Asks for one message more and waits for the next one.
    received receive(receiver_id receiver);
    bool is_empty(receiver_id receiver);
    void add_credit(receiver_id receiver, int credit);
    received next();
    void drain(receiver_id receiver);
    std::size_t waiting();

    void accept(delivery_id delivery);
    void reject(delivery_id delivery);
    void release(delivery_id delivery);
    void modify(delivery_id delivery);

    int accepted();

  private:
    using step = std::function<void()>;

    // On the thread of the case.
    sender_id open(const std::string& address, const proton::sender_options& options);
    receiver_id open(const std::string& address, const proton::receiver_options& options);
    void settle(delivery_id delivery, const std::function<void(proton::delivery&)>& how);
    // Has the container's thread take `todo`, and waits until it has.
    void run(const step& todo);
    template <class Check>
    void wait(Check check, const char* what);
    int read(const int& counter);

    // On the container's thread.
    void serve(const std::string& url, const proton::connection_options& options);
    void take_step();
    void pump(proton::sender& sender);
    void count(int& counter);
    void fail(const std::string& why);

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

    // Proton's own objects: touched by the container's thread alone.
    proton::connection connection_;
    std::vector<proton::sender> senders_;
    std::vector<proton::receiver> receivers_;
    std::map<delivery_id, proton::delivery> deliveries_;
    std::size_t delivered_ = 0;

    // Plain values of both threads, under `lock_`.
    std::mutex lock_;
    std::condition_variable changed_;
    proton::work_queue* work_ = nullptr;  // null before the connection is open and once it has ended
    bool ended_ = false;
    const step* step_ = nullptr;
    std::string step_error_;
    std::string failure_;
    std::string rejection_;
    int opened_ = 0, accepted_ = 0, rejected_ = 0, drained_ = 0;
    std::deque<proton::message> to_send_;
    std::deque<received> arrived_;

    proton::container container_;  // of it the case's thread calls `stop` only, which may be called from anywhere
    std::thread thread_;
};
