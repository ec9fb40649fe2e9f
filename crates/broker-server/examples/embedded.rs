//! A broker inside another program: `cargo run --example embedded -- ADDRESS DIRECTORY [none]`.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use broker_auth::{Anonymous, Authority, Credentials};
use broker_core::Expiry;
use broker_log::Durability;
use broker_server::{MissingRight, Outcome, Server, ServerConfig};

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(address)), Some(directory)) = (given.first().map(|text| text.parse()), given.get(1)) else {
        eprintln!("usage: embedded ADDRESS DIRECTORY [none]");
        return ExitCode::from(2);
    };
    let config = ServerConfig {
        listen: vec![address],
        listen_tls: Vec::new(),
        listen_http: Vec::new(),
        tls: None,
        data_dir: PathBuf::from(directory),
        durability: if given.len() > 2 { Durability::None } else { Durability::Fsync },
        segment_bytes: 16 << 20,
        cache_bytes: 256 << 20,
        disk_reserve_bytes: 256 << 20,
        entities: Vec::new(),
        auto_create: true,
        expiry: Expiry::Prompt,
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Allow))),
        key_sources: Vec::new(),
        max_connections: 10_000,
        max_links_per_connection: 5_000,
        max_remembered_ids: 10_000_000,
        quotas: broker_server::Quotas::default(),
        max_message_bytes: 1 << 20,
        max_frame_bytes: 65_536,
        idle_time_out: Duration::from_secs(120),
        link_idle_time_out: None,
        max_in_flight_bytes: 256 << 20,
        http_write_time_out: Duration::from_secs(30),
        handshake_time_out: Duration::from_secs(30),
        tcp_max_segment: None,
        shutdown_time_out: Duration::from_secs(5),
        io_threads: 2,
        missing_right: MissingRight::Forbidden,
        testing: false,
        observe: broker_server::ObservabilityConfig::default(),
        container_id: "embedded".to_owned(),
    };
    match Server::start(&config) {
        Ok(server) => match server.run_until_signal() {
            Outcome::Stopped => ExitCode::SUCCESS,
            Outcome::JournalFailed | Outcome::Panicked => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
