// Three namespaces of one broker at the same time: by an address each, as virtual host `vhost:NAME`, or by a name below a domain.
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cases.hpp"
#include "steps.hpp"

namespace {

struct team {
    std::string name, host, key;
};

// What `lib/namespaces.py` tells: `NAME HOST KEY` in a line for each.
std::vector<team> all_teams() {
    const char* text = std::getenv("FERRYBUS_NAMESPACES");
    REQUIRE(text != nullptr);
    std::istringstream lines(text);
    std::vector<team> teams;
    for (team one; lines >> one.name >> one.host >> one.key;) teams.push_back(one);
    REQUIRE(teams.size() == 3);
    return teams;
}

using way = std::function<setting(const setting&, const team&)>;

setting by_address(const setting& where, const team& of) {
    setting there = where;
    const std::string port = where.url.substr(where.url.rfind(':'));
    there.url = where.url.substr(0, where.url.find("//") + 2) + of.host + port;
    return there;
}

setting by_virtual_host(const setting& where, const team& of) {
    setting there = where;
    there.virtual_host = "vhost:" + of.name;
    return there;
}

setting by_domain(const setting& where, const team& of) {
    setting there = where;
    there.virtual_host = of.name + ".bus.example.org";
    return there;
}

void play_all(const setting& where, const way& to) {
    const std::vector<team> teams = all_teams();
    std::vector<std::unique_ptr<client>> clients;
    for (const team& each : teams) {
        const log_in who{where.key_name, each.key};
        clients.push_back(std::make_unique<client>(to(where, each), who));
        send(*clients.back(), where.queue, {"for " + each.name});
    }
    for (std::size_t index = 0; index < teams.size(); ++index) {
        client& c = *clients[index];
        const receiver_id receiver = c.open_receiver(where.queue);
        REQUIRE(accept_one(c, receiver) == "for " + teams[index].name);
        REQUIRE(c.is_empty(receiver));
    }
    for (std::size_t index = 0; index < teams.size(); ++index) {
        const team& other = teams[(index + 1) % teams.size()];
        const log_in stranger{where.key_name, other.key};
        // Where the host of the log-in leads to no namespace, the close comes behind the open.
        const auto enter = [&] {
            client c(to(where, teams[index]), stranger);
            send(c, where.queue, {"never"});
        };
        expect_refusal(enter, "amqp:unauthorized-access");
    }
}

}  // namespace

void namespaces(const setting& where) {
    if (where.tls) {
        // Proton looks for the virtual host in the certificate, and for no address.
        play_all(where, by_domain);
    } else {
        play_all(where, by_address);
        play_all(where, by_virtual_host);
    }
}
