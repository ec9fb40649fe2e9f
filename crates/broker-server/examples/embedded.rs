//! A broker inside another program: `cargo run --example embedded -- ADDRESS DIRECTORY [none]`.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use broker_auth::{Anonymous, Authority, Credentials};
use broker_log::{Durability, JournalConfig};
use broker_server::{Outcome, Server, ServerConfig};

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(address)), Some(directory)) = (given.first().map(|text| text.parse()), given.get(1)) else {
        eprintln!("usage: embedded ADDRESS DIRECTORY [none]");
        return ExitCode::from(2);
    };
    let durability = if given.len() > 2 { Durability::None } else { Durability::Fsync };
    let config = ServerConfig {
        listen: vec![address],
        data_dir: PathBuf::from(directory),
        journal: JournalConfig { durability, ..JournalConfig::default() },
        auto_create: true,
        authority: Arc::new(Authority::new(Credentials::development(Anonymous::Allow))),
        container_id: "embedded".to_owned(),
        ..ServerConfig::default()
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
