// A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.
#include <cstdlib>
#include <string>

#include "cases.hpp"
#include "steps.hpp"

namespace {

constexpr std::size_t LIMIT = 256 << 10;
constexpr std::size_t LOWERED = 1 << 10;

proton::binary pattern(std::size_t length) {
    proton::binary bytes(length);
    for (std::size_t index = 0; index < length; ++index) {
        bytes[index] = static_cast<std::uint8_t>(index % 251);
    }
    return bytes;
}

message filled(std::size_t length) {
    message made(pattern(length));
    made.id("largest");
    made.subject("the subject");
    made.correlation_id("corr");
    made.properties().put("number", std::int32_t{7});
    made.properties().put("text", "grüße ✓");
    return made;
}

// A message whose encoding has so many bytes.
message of_size(std::size_t size) {
    const message made = filled(size - (filled(LOWERED).encode().size() - LOWERED));
    REQUIRE(made.encode().size() == size);
    return made;
}

void is_refused(client& c, sender_id sender, std::size_t size) {
    try {
        c.send(sender, of_size(size));
    } catch (const refused& error) {
        REQUIRE(std::string(error.what()) == "rejected");
        return;
    }
    throw std::runtime_error(std::to_string(size) + " bytes were accepted");
}

// Nothing was lost on the way, and it comes for the first time: no link was closed for its size.
received next_whole(client& c, receiver_id receiver) {
    const received got = c.receive(receiver);
    const message& found = got.message;
    REQUIRE(found.body() == of_size(LIMIT).body());
    REQUIRE(found.id() == proton::message_id("largest"));
    REQUIRE(found.subject() == "the subject");
    REQUIRE(found.correlation_id() == proton::message_id("corr"));
    REQUIRE(proton::get<std::int32_t>(found.properties().get("number")) == 7);
    REQUIRE(proton::get<std::string>(found.properties().get("text")) == "grüße ✓");
    REQUIRE(found.delivery_count() == 0);
    return got;
}

// Changes the largest message that the queue takes, as an operator does.
void limit_messages(const std::string& queue, std::size_t most) {
    const std::string update = "\"$FERRYBUS_BIN\" queue update '" + queue + "' --max-message-bytes ";
    REQUIRE(std::system((update + std::to_string(most)).c_str()) == 0);
}

}  // namespace

void largest_message(const setting& where) {
    client c(where);
    const std::string letters = where.queue + "/$DeadLetterQueue";
    const receiver_id locking = c.open_receiver(where.queue);
    const receiver_id deleting = c.open_receiver(where.queue, true);
    const receiver_id dead = c.open_receiver(letters);
    const receiver_id deleting_dead = c.open_receiver(letters, true);
    const sender_id sender = c.open_sender(where.queue);
    is_refused(c, sender, LIMIT + 1);
    for (const bool is_lowered : {false, true}) {
        for (int round = 0; round < 4; ++round) c.send(sender, of_size(LIMIT));
        if (is_lowered) {
            limit_messages(where.queue, LOWERED);
            is_refused(c, c.open_sender(where.queue), LOWERED + 1);
        }
        REQUIRE(next_whole(c, deleting).settled);
        c.accept(next_whole(c, locking).delivery);
        // Proton for C++ has no call to give a reason.
        for (int round = 0; round < 2; ++round) c.reject(next_whole(c, locking).delivery);
        REQUIRE(next_whole(c, deleting_dead).settled);
        c.accept(next_whole(c, dead).delivery);
    }
    REQUIRE(c.is_empty(locking));
    REQUIRE(c.is_empty(dead));
}
