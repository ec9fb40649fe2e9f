//! Forwarding, which stays within its namespace.

use super::served::{Service, TEAMS, good, refused};
use crate::support::until;

#[test]
fn the_host_of_a_forward_target_does_not_count_and_nothing_leaves_its_namespace() {
    let service = Service::start("namespaces-forwarding", TEAMS, &[]);
    good(&service.run_in("team-b", "b", "queue create only-there"));
    let create = |queue: &str, target: &str| {
        service.run_in("team-a", "a", &format!("queue create {queue} --forward-to {target}"))
    };
    for (queue, host) in [("by-name", "team-b.localhost"), ("by-host", "b.test"), ("by-default", "localhost")]
    {
        good(&create(queue, &format!("sb://{host}/orders")));
        good(&service.run_in("team-a", "a", &format!("send {queue} --body {queue}")));
        until(|| good(&service.run_in("team-a", "a", "peek orders")).contains(queue));
    }
    // The entity has to be there in its own namespace.
    refused(&create("nowhere", "sb://team-b.localhost/only-there"), "only-there");
    for queue in ["orders", "only-there"] {
        assert_eq!(good(&service.run_in("team-b", "b", &format!("peek {queue}"))), "", "{queue}");
    }
}
