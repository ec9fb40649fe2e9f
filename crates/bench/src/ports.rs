//! Free ports, who listens on one, and whether it answers at AMQP level (Linux).
//!
//! Invariant: only loopback addresses are touched.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::Fallible;

/// A protocol header that asks for SASL: every broker answers it with its own.
const HELLO: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// A broker that is still starting may accept and stay silent: ask again rather than wait.
const PATIENCE: Duration = Duration::from_millis(250);

/// A port that was free a moment ago.
pub(super) fn free() -> Fallible<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether a broker on `port` answers the protocol header.
pub(super) fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&HELLO)?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        Ok(answer.starts_with(b"AMQP"))
    };
    ask().unwrap_or(false)
}

/// The process that listens on `port`: start commands may leave their broker to another one.
pub(super) fn listener(port: u16) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|table| table.lines().filter_map(|line| listening_inode(line, port)).collect::<Vec<_>>())
        .collect();
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let mut files = std::fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        files
            .any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|link| {
                    inodes
                        .iter()
                        .any(|inode| link.as_os_str().as_bytes() == format!("socket:[{inode}]").as_bytes())
                })
            })
            .then_some(pid)
    })
}

/// The inode in a line of `/proc/net/tcp` whose socket listens on `port`.
fn listening_inode(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    let here = u16::from_str_radix(local, 16).ok()? == port;
    (here && *fields.get(3)? == LISTEN).then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
}

#[cfg(test)]
mod tests;
