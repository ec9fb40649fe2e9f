//! The part of a scrape that shows namespaces.
//!
//! Invariant: each family stands together. The name of a namespace needs no escapes.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use broker_core::NamespaceLimit;

use crate::{
    namespaces::ServedNamespace,
    node_driver::{NamespaceFigures, NodeView},
};

/// Metrics of one namespace.
#[derive(Debug)]
pub(crate) struct ShownNamespace {
    name: Arc<str>,
    /// `None`: the shard that has the figure recovers.
    figures: [Option<u64>; FAMILIES.len()],
    handshake_time: Duration,
    limits: [Option<u64>; NamespaceLimit::ALL.len()],
}

/// Families with one sample of each namespace, in the order of [`ShownNamespace::figures`]: name, type and help.
const FAMILIES: [(&str, &str, &str); 20] = [
    ("namespace_entities", "gauge", "Queues, topics and subscriptions of a namespace"),
    ("namespace_live_bytes", "gauge", "Bytes of a namespace's records that are still needed"),
    ("namespace_appended_bytes", "counter", "Bytes of records that a namespace has written"),
    ("namespace_unwritten_bytes", "gauge", "Bytes of a namespace's records that wait for the disk"),
    ("namespace_work_units", "counter", "Units of work that a shard has done for a namespace"),
    (
        "namespace_background_work_units",
        "counter",
        "Those units that no client asked for: work that was due, and records that compaction moved",
    ),
    (
        "namespace_cached_bytes",
        "gauge",
        "Bytes of memory for a namespace's records in the journal's write cache",
    ),
    ("namespace_disk_reads", "counter", "Records of a namespace that had to be read back from the disk"),
    ("namespace_connections", "gauge", "Open AMQP connections of a namespace"),
    (
        "namespace_connections_refused",
        "counter",
        "Connections refused because their namespace had as many as it may",
    ),
    (
        "namespace_connections_beyond_share",
        "counter",
        "Connections refused because few were left and their namespace had its share",
    ),
    ("namespace_handshakes", "counter", "TLS handshakes of clients that came to a namespace"),
    ("namespace_in_flight_bytes", "gauge", "Bytes of a namespace's commands that wait for the node"),
    (
        "namespace_send_waits",
        "counter",
        "Times that a connection was not read because its namespace sent more than it may",
    ),
    (
        "namespace_gateway_work_units",
        "counter",
        "Work that connections of a namespace have caused outside of the node, in units of about 100 ns",
    ),
    ("namespace_dynamic_nodes", "gauge", "Dynamic nodes of a namespace"),
    ("namespace_dynamic_nodes_created", "counter", "Dynamic nodes that were created in a namespace"),
    (
        "namespace_dynamic_nodes_refused",
        "counter",
        "Dynamic nodes that were not created because their connection or the broker had as many as it may",
    ),
    ("namespace_weight", "gauge", "Weight of a namespace where several want more than there is"),
    ("namespace_held", "gauge", "Whether a namespace takes no connections"),
];

impl ShownNamespace {
    /// A namespace, as the server and its shard see it; without a view where the shard recovers.
    pub(crate) fn new(served: &ServedNamespace, node: Option<&NodeView>) -> Self {
        let definition = served.definition();
        let found = node.and_then(|node| node.namespaces.iter().find(|figures| figures.id == served.id));
        // A namespace that its shard does not have any more has nothing.
        let of_node = |figure: fn(&NamespaceFigures) -> u64| node.map(|_| found.map_or(0, figure));
        let dynamic_nodes = &served.gateway.dynamic_nodes;
        let figures = [
            of_node(|figures| figures.entities),
            of_node(|figures| figures.live_bytes),
            of_node(|figures| figures.appended_bytes),
            of_node(|figures| figures.unwritten_bytes),
            of_node(|figures| figures.work),
            of_node(|figures| figures.background_work),
            of_node(|figures| figures.cached_bytes),
            of_node(|figures| figures.disk_reads),
            Some(served.connections() as u64),
            Some(served.refused_connections() as u64),
            Some(served.refused_for_share() as u64),
            Some(served.handshakes.begun()),
            Some(served.ingress_credit.bytes() as u64),
            Some(served.send_rate.waits()),
            Some(served.gateway_work().0),
            Some(dynamic_nodes.count() as u64),
            Some(dynamic_nodes.created()),
            Some(dynamic_nodes.refused()),
            Some(u64::from(definition.settings.weight)),
            Some(u64::from(!served.is_open())),
        ];
        let limits = NamespaceLimit::ALL.map(|limit| definition.settings.limits.get(limit));
        let handshake_time = served.handshakes.time();
        Self { name: Arc::clone(&served.name), figures, handshake_time, limits }
    }
}

/// The text of all families, one piece each.
pub(super) fn families(namespaces: &[ShownNamespace]) -> Vec<String> {
    let mut families = Vec::with_capacity(FAMILIES.len() + 2);
    for (index, (name, kind, help)) in FAMILIES.into_iter().enumerate() {
        let mut out = format!("# HELP ferrybus_{name} {help}.\n# TYPE ferrybus_{name} {kind}\n");
        let ending = if kind == "counter" { "_total" } else { "" };
        for ShownNamespace { name: namespace, figures, .. } in namespaces {
            let Some(figure) = figures.get(index).copied().flatten() else { continue };
            put(&mut out, format_args!("ferrybus_{name}{ending}{{namespace=\"{namespace}\"}} {figure}\n"));
        }
        families.push(out);
    }
    let (name, help) =
        ("namespace_handshake_seconds", "Time for which TLS handshakes of a namespace have computed");
    let mut times = format!(
        "# HELP ferrybus_{name} {help}.\n# TYPE ferrybus_{name} counter\n# UNIT ferrybus_{name} seconds\n"
    );
    for ShownNamespace { name: namespace, handshake_time, .. } in namespaces {
        let (seconds, nanoseconds) = (handshake_time.as_secs(), handshake_time.subsec_nanos());
        put(
            &mut times,
            format_args!("ferrybus_{name}_total{{namespace=\"{namespace}\"}} {seconds}.{nanoseconds:09}\n"),
        );
    }
    families.push(times);
    let help = "Limits of a namespace, where it has some";
    let mut limits =
        format!("# HELP ferrybus_namespace_limit {help}.\n# TYPE ferrybus_namespace_limit gauge\n");
    for ShownNamespace { name, limits: of_namespace, .. } in namespaces {
        for (limit, number) in NamespaceLimit::ALL.into_iter().zip(of_namespace) {
            let Some(number) = number else { continue };
            let limit = limit.key();
            let sample =
                format_args!("ferrybus_namespace_limit{{namespace=\"{name}\",limit=\"{limit}\"}} {number}\n");
            put(&mut limits, sample);
        }
    }
    families.push(limits);
    families
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _never = out.write_fmt(text);
}
