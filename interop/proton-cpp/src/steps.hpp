#pragma once

// What the cases do over and over.

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <proton/annotation_key.hpp>
#include <proton/binary.hpp>
#include <proton/codec/map.hpp>
#include <proton/codec/vector.hpp>
#include <proton/message_id.hpp>
#include <proton/symbol.hpp>
#include <proton/timestamp.hpp>
#include <proton/uuid.hpp>
#include <proton/value.hpp>

#include "client.hpp"

using proton::message;
using proton::value;

inline void fail(const std::string& what, int line) {
    throw std::runtime_error("line " + std::to_string(line) + ": not so: " + what);
}

#define REQUIRE(condition) \
    if (!(condition)) fail(#condition, __LINE__)

inline std::string body(const message& from) { return proton::get<std::string>(from.body()); }

inline value annotation(const message& from, const char* name) {
    return from.message_annotations().get(proton::symbol(name));
}

inline std::int64_t sequence_number(const message& from) {
    return proton::get<std::int64_t>(annotation(from, "x-opt-sequence-number"));
}

inline std::int64_t locked_until(const message& from) {
    return proton::get<proton::timestamp>(annotation(from, "x-opt-locked-until")).milliseconds();
}

inline proton::uuid lock_token(const message& from) {
    const value token = from.delivery_annotations().get(proton::symbol("x-opt-lock-token"));
    return proton::get<proton::uuid>(token);
}

inline void pause(seconds time) {
    if (time > seconds{0}) std::this_thread::sleep_for(time);
}

// Waits out a lock that ends at `end`, in milliseconds.
inline void wait_past(std::int64_t end) {
    pause(seconds{(end - proton::timestamp::now().milliseconds()) / 1000.0 + 0.3});
}

inline void send(client& c, const std::string& queue, const std::vector<std::string>& bodies) {
    const sender_id sender = c.open_sender(queue);
    for (const auto& each : bodies) c.send(sender, message(each));
    c.close(sender);
}

inline std::string accept_one(client& c, receiver_id receiver) {
    const received got = c.receive(receiver);
    c.accept(got.delivery);
    return body(got.message);
}

// Expects `step` to be refused with a text that contains `condition`.
inline void expect_refusal(const std::function<void()>& step, const std::string& condition) {
    try {
        step();
    } catch (const refused& error) {
        if (std::string(error.what()).find(condition) == std::string::npos) throw;
        return;
    }
    throw std::runtime_error("not refused with " + condition);
}

// Requests to a queue's `$management` node.
class management {
  public:
    using body_map = std::map<std::string, value>;

    management(client& c, const std::string& queue) : c_(c), reply_to_(queue + "-replies") {
        const std::string node = queue + "/$management";
        receiver_ = c.open_receiver(node, false, reply_to_);
        sender_ = c.open_sender(node);
    }

    std::pair<int, value> request(const std::string& operation, const body_map& fields) {
        message asked;
        asked.id("request-" + std::to_string(++count_));
        asked.reply_to(reply_to_);
        asked.properties().put("operation", "com.microsoft:" + operation);
        asked.body(fields);
        c_.send(sender_, asked);
        const received reply = c_.receive(receiver_);
        c_.accept(reply.delivery);
        REQUIRE(reply.message.correlation_id() == asked.id());
        const auto status = proton::get<std::int32_t>(reply.message.properties().get("statusCode"));
        return {status, reply.message.body()};
    }

    std::pair<int, value> renew_lock(const proton::uuid& token) {
        return request("renew-lock", {{"lock-tokens", std::vector<proton::uuid>{token}}});
    }

    std::vector<message> peek(std::int64_t from, std::int32_t count) {
        const auto reply =
            request("peek-message", {{"from-sequence-number", from}, {"message-count", count}});
        if (reply.first == 204) return {};
        REQUIRE(reply.first == 200);
        body_map fields;
        proton::get(reply.second, fields);
        std::vector<value> items;
        proton::get(fields["messages"], items);
        std::vector<message> peeked;
        for (const auto& item : items) {
            std::map<std::string, proton::binary> parts;
            proton::get(item, parts);
            const proton::binary& encoded = parts["message"];
            message one;
            one.decode({encoded.begin(), encoded.end()});
            peeked.push_back(one);
        }
        return peeked;
    }

  private:
    client& c_;
    std::string reply_to_;
    receiver_id receiver_;
    sender_id sender_;
    int count_ = 0;
};
