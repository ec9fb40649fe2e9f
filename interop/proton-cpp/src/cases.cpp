#include "cases.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <proton/annotation_key.hpp>
#include <proton/binary.hpp>
#include <proton/codec/map.hpp>
#include <proton/codec/vector.hpp>
#include <proton/decimal.hpp>
#include <proton/duration.hpp>
#include <proton/message_id.hpp>
#include <proton/symbol.hpp>
#include <proton/timestamp.hpp>
#include <proton/uuid.hpp>
#include <proton/value.hpp>

#include "steps.hpp"

namespace {

using proton::scalar;

void send_one(const setting& where) {
    client c(where);
    send(c, where.queue, {"hello"});
    const receiver_id receiver = c.open_receiver(where.queue);
    REQUIRE(accept_one(c, receiver) == "hello");
    REQUIRE(c.is_empty(receiver));
}

std::vector<message> thousand() {
    std::vector<message> messages;
    for (int number = 0; number < 1000; ++number) messages.emplace_back(number);
    return messages;
}

void expect_thousand(client& c, const std::string& queue) {
    const receiver_id receiver = c.open_receiver(queue);
    c.add_credit(receiver, 1000);
    for (int number = 0; number < 1000; ++number) {
        const received got = c.next();
        REQUIRE(proton::get<std::int32_t>(got.message.body()) == number);
        c.accept(got.delivery);
    }
    REQUIRE(c.is_empty(receiver));
}

void send_1000_pipelined(const setting& where) {
    client c(where);
    c.send_all(c.open_sender(where.queue), thousand(), 1000);
    REQUIRE(c.accepted() == 1000);
    expect_thousand(c, where.queue);
}

void send_pre_settled(const setting& where) {
    client c(where);
    c.send_all(c.open_sender(where.queue, true), thousand(), 0);
    expect_thousand(c, where.queue);
    REQUIRE(c.accepted() == 0);
}

void peek_lock_complete(const setting& where) {
    client c(where);
    send(c, where.queue, {"one", "two"});
    const receiver_id receiver = c.open_receiver(where.queue);
    for (const char* expected : {"one", "two"}) {
        const received got = c.receive(receiver);
        REQUIRE(body(got.message) == expected && got.message.delivery_count() == 0);
        c.accept(got.delivery);
    }
    REQUIRE(c.is_empty(receiver));
    c.close(receiver);
    REQUIRE(management(c, where.queue).peek(1, 10).empty());
}

using open_how = receiver_id (*)(client&, const std::string&);

receiver_id plain(client& c, const std::string& queue) { return c.open_receiver(queue); }

receiver_id service_bus(client& c, const std::string& queue) {
    return c.open_service_bus_receiver(queue);
}

void give_back(const setting& where, open_how open, void (client::*how)(delivery_id),
               std::uint32_t counted) {
    client c(where);
    send(c, where.queue, {"one", "two"});
    const receiver_id receiver = open(c, where.queue);
    const received first = c.receive(receiver);
    (c.*how)(first.delivery);
    // Proton writes new credit before settlements: only once the broker has answered
    // something else is it certain that it has seen this one.
    c.close(c.open_sender(where.queue));
    const received again = c.receive(receiver);
    REQUIRE(body(again.message) == "one");  // it keeps its place
    REQUIRE(sequence_number(again.message) == sequence_number(first.message));
    REQUIRE(again.message.delivery_count() == counted);
    c.accept(again.delivery);
    REQUIRE(accept_one(c, receiver) == "two");
    REQUIRE(c.is_empty(receiver));
}

void peek_lock_dead_letter(const setting& where) {
    client c(where);
    send(c, where.queue, {"bad"});
    const receiver_id receiver = c.open_receiver(where.queue);
    c.reject(c.receive(receiver).delivery);
    REQUIRE(c.is_empty(receiver));
    const receiver_id dead_letters = c.open_receiver(where.queue + "/$DeadLetterQueue");
    REQUIRE(accept_one(c, dead_letters) == "bad");
    REQUIRE(c.is_empty(dead_letters));
}

void receive_and_delete(const setting& where) {
    client c(where);
    send(c, where.queue, {"a", "b", "c"});
    const receiver_id receiver = c.open_receiver(where.queue, true);
    for (const char* expected : {"a", "b", "c"}) {
        const received got = c.receive(receiver);
        REQUIRE(body(got.message) == expected);
        REQUIRE(got.settled);
    }
    REQUIRE(c.is_empty(receiver));
    c.close(receiver);
    REQUIRE(management(c, where.queue).peek(1, 10).empty());
}

void lock_renewal(const setting& where) {
    client c(where), other(where);
    send(c, where.queue, {"long work"});
    const receiver_id receiver = c.open_service_bus_receiver(where.queue);
    const received got = c.receive(receiver);
    const std::int64_t first_end = locked_until(got.message);
    management node(c, where.queue);
    pause(seconds{7});  // so that the renewed lock outlives the first one by as much
    const auto answer = node.renew_lock(lock_token(got.message));
    REQUIRE(answer.first == 200);
    std::map<std::string, std::vector<proton::timestamp>> fields;
    proton::get(answer.second, fields);
    REQUIRE(fields["expirations"].at(0).milliseconds() >= first_end + 4500);
    wait_past(first_end);
    REQUIRE(other.is_empty(other.open_receiver(where.queue)));
    c.accept(got.delivery);
    REQUIRE(c.is_empty(receiver));
    c.close(receiver);
    REQUIRE(node.peek(1, 10).empty());
}

void lock_loss(const setting& where) {
    client c(where);
    send(c, where.queue, {"too slow"});
    const receiver_id receiver = c.open_service_bus_receiver(where.queue);
    const received first = c.receive(receiver);
    management node(c, where.queue);
    wait_past(locked_until(first.message));
    REQUIRE(node.renew_lock(lock_token(first.message)).first == 410);
    c.accept(first.delivery);  // too late: must complete nothing
    const received again = c.receive(receiver);
    REQUIRE(body(again.message) == "too slow" && again.message.delivery_count() == 1);
    c.accept(again.delivery);
    REQUIRE(c.is_empty(receiver));
}

void delivery_count_to_dead_letter(const setting& where) {
    client c(where);
    send(c, where.queue, {"poison"});
    const receiver_id receiver = c.open_service_bus_receiver(where.queue);
    for (std::uint32_t failed = 0; failed < 3; ++failed) {
        const received got = c.receive(receiver);
        REQUIRE(got.message.delivery_count() == failed);
        c.modify(got.delivery);
    }
    REQUIRE(c.is_empty(receiver));
    const received got = c.receive(c.open_receiver(where.queue + "/$DeadLetterQueue"));
    REQUIRE(body(got.message) == "poison");
    const auto reason = got.message.properties().get("DeadLetterReason");
    REQUIRE(proton::get<std::string>(reason) == "MaxDeliveryCountExceeded");
    REQUIRE(got.message.properties().exists("DeadLetterErrorDescription"));
    c.accept(got.delivery);
}

void peek(const setting& where) {
    client c(where);
    send(c, where.queue, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
    management node(c, where.queue);
    std::int64_t from = 1;
    for (int seen = 0; seen < 10;) {
        const auto more = node.peek(from, 4);
        REQUIRE(!more.empty());
        for (const auto& each : more) {
            REQUIRE(body(each) == std::to_string(seen++));
            REQUIRE(proton::get<std::int32_t>(annotation(each, "x-opt-message-state")) == 0);
        }
        from = sequence_number(more.back()) + 1;
    }
    REQUIRE(node.peek(from, 1).empty());
    const receiver_id receiver = c.open_receiver(where.queue);
    for (int number = 0; number < 10; ++number) {
        const received got = c.receive(receiver);
        REQUIRE(got.message.delivery_count() == 0);  // peeking is not delivering
        c.accept(got.delivery);
    }
}

void two_competing_receivers(const setting& where) {
    client left(where), right(where);
    send(left, where.queue, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
    const receiver_id mine = left.open_receiver(where.queue);
    const receiver_id theirs = right.open_receiver(where.queue);
    std::map<std::string, int> seen;
    std::vector<delivery_id> of_left, of_right;
    for (int round = 0; round < 5; ++round) {
        const received one = left.receive(mine), other = right.receive(theirs);
        ++seen[body(one.message)];
        ++seen[body(other.message)];
        of_left.push_back(one.delivery);
        of_right.push_back(other.delivery);
    }
    REQUIRE(seen.size() == 10);  // none delivered twice
    for (const delivery_id each : of_left) left.accept(each);
    for (const delivery_id each : of_right) right.accept(each);
    REQUIRE(left.is_empty(mine));
}

void plain_log_in(const setting& where) {
    client c(where, {where.key_name, where.key});
    send(c, where.queue, {"with a key"});
    REQUIRE(accept_one(c, c.open_receiver(where.queue)) == "with a key");
}

void wrong_key(const setting& where) {
    expect_refusal([&] { client c(where, {where.key_name, "WRONG_KEY"}); },
                   "amqp:unauthorized-access");
}

void missing_queue(const setting& where) {
    // The refusal follows the attach, so it may come after the link counts as open.
    const auto send_there = [&] {
        client c(where);
        c.send(c.open_sender("no-such-queue"), message("lost"));
    };
    const auto receive_there = [&] {
        client c(where);
        c.receive(c.open_receiver("no-such-queue"));
    };
    expect_refusal(send_there, "amqp:not-found");
    expect_refusal(receive_there, "amqp:not-found");
}

void oversized_message(const setting& where) {
    try {
        client c(where);
        c.send(c.open_sender(where.queue), message(proton::binary(2 << 20)));
        throw std::runtime_error("2 MiB were accepted by a queue that allows 1 MiB");
    } catch (const refused& error) {
        const std::string said = error.what();
        if (said != "rejected" && said.find("message-size-exceeded") == std::string::npos) throw;
    }
    client c(where);
    send(c, where.queue, {"fits"});
    REQUIRE(accept_one(c, c.open_receiver(where.queue)) == "fits");
}

void large_message(const setting& where) {
    proton::binary large(900 * 1024);
    for (std::size_t index = 0; index < large.size(); ++index) {
        large[index] = static_cast<std::uint8_t>(index % 251);
    }
    client c(where);
    const sender_id sender = c.open_sender(where.queue);
    for (int round = 0; round < 3; ++round) c.send(sender, message(large));
    const receiver_id receiver = c.open_receiver(where.queue);
    for (int round = 0; round < 3; ++round) {
        const received got = c.receive(receiver);
        REQUIRE(proton::get<proton::binary>(got.message.body()) == large);
        c.accept(got.delivery);
    }
}

void drain(const setting& where) {
    client c(where);
    const receiver_id receiver = c.open_receiver(where.queue);
    c.add_credit(receiver, 5);
    c.drain(receiver);
    REQUIRE(c.waiting() == 0);
    send(c, where.queue, {"a", "b"});
    REQUIRE(c.waiting() == 0);  // the drained credit is gone
    c.add_credit(receiver, 5);
    c.drain(receiver);
    REQUIRE(c.waiting() == 2);
    for (const char* expected : {"a", "b"}) {
        const received got = c.next();
        REQUIRE(body(got.message) == expected);
        c.accept(got.delivery);
    }
}

void annotations_and_header(const setting& where) {
    client c(where);
    message sent("annotated");
    sent.durable(true);
    sent.priority(7);
    sent.ttl(proton::duration(60'000));
    sent.message_annotations().put(proton::symbol("x-opt-partition-key"), "pk");
    sent.message_annotations().put(proton::symbol("x-opt-ours"), std::uint64_t{42});
    c.send(c.open_sender(where.queue), sent);
    const received got = c.receive(c.open_receiver(where.queue));
    const message& back = got.message;
    REQUIRE(back.durable() && back.priority() == 7 && back.ttl().milliseconds() == 60'000);
    REQUIRE(back.delivery_count() == 0 && back.first_acquirer());
    REQUIRE(proton::get<std::string>(annotation(back, "x-opt-partition-key")) == "pk");
    REQUIRE(proton::get<std::uint64_t>(annotation(back, "x-opt-ours")) == 42);
    REQUIRE(sequence_number(back) >= 1);
    const value stamp = annotation(back, "x-opt-enqueued-time");
    const std::int64_t enqueued = proton::get<proton::timestamp>(stamp).milliseconds();
    REQUIRE(std::abs(enqueued - proton::timestamp::now().milliseconds()) < 60'000);
    const std::int64_t lock = locked_until(back) - enqueued;
    REQUIRE(lock >= 5'000 && lock < 60'000);
    c.accept(got.delivery);
}

template <class Decimal>
Decimal decimal() {
    Decimal made;
    for (std::size_t index = 0; index < made.size(); ++index) {
        made[index] = static_cast<std::uint8_t>(index + 1);
    }
    return made;
}

void round_trip(const setting& where) {
    client c(where);
    const sender_id sender = c.open_sender(where.queue);
    const receiver_id receiver = c.open_receiver(where.queue);
    const std::map<std::string, value> nested{{"a", std::vector<std::int64_t>{1, 2, 3}},
                                              {"b", std::map<std::string, value>{{"c", 2.5}}}};
    const std::vector<value> bodies{
        true,
        std::uint8_t{200},
        std::int8_t{-100},
        std::uint16_t{65'000},
        std::int16_t{-30'000},
        std::uint32_t{4'000'000'000},
        std::int32_t{-2'000'000'000},
        std::uint64_t{18'446'744'073'709'551'615u},
        std::int64_t{-4'611'686'018'427'387'904},
        1.25f,
        2.5,
        decimal<proton::decimal32>(),
        decimal<proton::decimal64>(),
        decimal<proton::decimal128>(),
        wchar_t{0x2713},
        proton::timestamp(1'896'321'906'789),
        proton::uuid::random(),
        proton::binary("bytes"),
        "grüße ✓",
        std::string(300, 's'),
        proton::symbol("a:symbol"),
        nested,
    };
    for (const auto& each : bodies) {
        message sent(each);
        for (const auto& property : bodies) {
            if (property.type() != proton::MAP) {
                const std::string name = "p" + std::to_string(property.type());
                sent.properties().put(name, proton::get<scalar>(property));
            }
        }
        sent.id(proton::uuid::random());
        sent.correlation_id(std::uint64_t{7});
        sent.user("user");
        sent.to("there");
        sent.subject("the subject");
        sent.reply_to("back");
        sent.content_type("text/plain");
        sent.content_encoding("identity");
        sent.group_id("group");
        sent.group_sequence(3);
        sent.reply_to_group_id("answers");
        c.send(sender, sent);
        const received got = c.receive(receiver);
        const message& back = got.message;
        REQUIRE(back.body().type() == each.type());
        REQUIRE(proton::to_string(back.body()) == proton::to_string(each));
        REQUIRE(back.properties().size() == sent.properties().size());
        for (const auto& property : bodies) {
            if (property.type() == proton::MAP) continue;
            const std::string name = "p" + std::to_string(property.type());
            REQUIRE(back.properties().get(name) == sent.properties().get(name));
            REQUIRE(back.properties().get(name).type() == sent.properties().get(name).type());
        }
        REQUIRE(back.id() == sent.id() && back.correlation_id() == sent.correlation_id());
        REQUIRE(back.user() == "user" && back.to() == "there" && back.subject() == "the subject");
        REQUIRE(back.reply_to() == "back" && back.content_type() == "text/plain");
        REQUIRE(back.content_encoding() == "identity" && back.group_id() == "group");
        REQUIRE(back.group_sequence() == 3 && back.reply_to_group_id() == "answers");
        c.accept(got.delivery);
    }
}

void link_close_and_reopen(const setting& where) {
    client c(where);
    for (int round = 0; round < 3; ++round) {
        send(c, where.queue, {std::to_string(round)});
        const receiver_id receiver = c.open_receiver(where.queue);
        REQUIRE(accept_one(c, receiver) == std::to_string(round));
        c.close(receiver);
    }
}

void topic_durable(const setting& where) {
    {
        client c(where);
        send(c, where.queue, {"early"});
        const receiver_id receiver = c.open_subscriber(where.queue, "news");
        send(c, where.queue, {"here"});
        REQUIRE(accept_one(c, receiver) == "here");
        c.detach(receiver);
        send(c, where.queue, {"detached"});
    }
    {
        client c(where);
        send(c, where.queue, {"away"});
        const receiver_id receiver = c.open_subscriber(where.queue, "news");
        REQUIRE(accept_one(c, receiver) == "detached");
        REQUIRE(accept_one(c, receiver) == "away");
        REQUIRE(c.is_empty(receiver));
        c.close(receiver);  // gives the subscription up
        send(c, where.queue, {"lost"});
    }
    client c(where);
    REQUIRE(c.is_empty(c.open_subscriber(where.queue, "news")));
}

void topic_volatile(const setting& where) {
    client left(where), right(where);
    const receiver_id one = left.open_receiver(where.queue), two = right.open_receiver(where.queue);
    send(left, where.queue, {"m"});
    REQUIRE(accept_one(left, one) == "m" && accept_one(right, two) == "m");
    left.close(one);
    send(left, where.queue, {"late"});
    REQUIRE(left.is_empty(left.open_receiver(where.queue)));
    REQUIRE(accept_one(right, two) == "late");
}

void topic_selector(const setting& where) {
    client c(where);
    const receiver_id red = c.open_subscriber(where.queue, "red", "colour = 'red' AND n > 1");
    const sender_id sender = c.open_sender(where.queue);
    const auto tell = [&](const std::string& text, const std::string& colour, int n) {
        message sent(text);
        sent.properties().put("colour", colour);
        sent.properties().put("n", n);
        c.send(sender, sent);
    };
    tell("few", "red", 1);
    tell("blue", "blue", 2);
    tell("both", "red", 2);
    REQUIRE(accept_one(c, red) == "both");
    REQUIRE(c.is_empty(red));
}

void anonymous_relay(const setting& where) {
    client c(where);
    const sender_id relay = c.open_relay();
    const auto to = [](const std::string& address, const std::string& content) {
        message made(content);
        made.to(address);
        return made;
    };
    c.send(relay, to(where.queue, "one"));
    c.send(relay, to("/queues/" + where.queue, "two"));
    expect_refusal([&] { c.send(relay, to("no-such-queue", "lost")); }, "rejected");
    const receiver_id receiver = c.open_receiver(where.queue);
    REQUIRE(accept_one(c, receiver) == "one");
    REQUIRE(accept_one(c, receiver) == "two");
}

void restart_before(const setting& where) {
    client c(where);
    send(c, where.queue, {"before the crash"});
    c.receive(c.open_receiver(where.queue));  // locked when the broker dies
}

void restart_between(const setting& where) {
    client c(where);
    send(c, where.queue, {"after the crash"});
}

void restart_after(const setting& where) {
    client c(where);
    const receiver_id receiver = c.open_receiver(where.queue);
    REQUIRE(accept_one(c, receiver) == "before the crash");
    REQUIRE(accept_one(c, receiver) == "after the crash");
    REQUIRE(c.is_empty(receiver));
}

const std::map<std::string, std::function<void(const setting&)>> CASES{
    {"send-one", send_one},
    {"send-1000-pipelined", send_1000_pipelined},
    {"send-pre-settled", send_pre_settled},
    {"peek-lock-complete", peek_lock_complete},
    // Proton sends `delivery-failed` false: to Service Bus an abandon all the same.
    {"peek-lock-abandon",
     [](const setting& where) { give_back(where, service_bus, &client::modify, 1); }},
    {"modified-without-failure",
     [](const setting& where) { give_back(where, plain, &client::modify, 0); }},
    {"peek-lock-release",
     [](const setting& where) { give_back(where, plain, &client::release, 0); }},
    {"peek-lock-dead-letter", peek_lock_dead_letter},
    {"receive-and-delete", receive_and_delete},
    {"lock-renewal", lock_renewal},
    {"lock-loss", lock_loss},
    {"delivery-count-to-dead-letter", delivery_count_to_dead_letter},
    {"peek", peek},
    {"two-competing-receivers", two_competing_receivers},
    {"plain-log-in", plain_log_in},
    {"wrong-key", wrong_key},
    {"namespaces", namespaces},
    {"missing-queue", missing_queue},
    {"oversized-message", oversized_message},
    {"large-message", large_message},
    {"largest-message", largest_message},
    {"drain", drain},
    {"annotations-and-header", annotations_and_header},
    {"round-trip", round_trip},
    {"link-close-and-reopen", link_close_and_reopen},
    {"anonymous-relay", anonymous_relay},
    {"topic-durable", topic_durable},
    {"topic-volatile", topic_volatile},
    {"topic-selector", topic_selector},
    {"restart-before", restart_before},
    {"restart-between", restart_between},
    {"restart-after", restart_after},
};

}  // namespace

void play(const std::string& name, const setting& where) {
    const auto found = CASES.find(name);
    if (found == CASES.end()) throw std::runtime_error("no case named " + name);
    found->second(where);
}
