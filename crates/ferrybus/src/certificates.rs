//! `ferrybus cert dev`: an authority of one's own and certificates signed by it.
//!
//! Invariant: an existing authority is never replaced, so what trusts it goes on trusting; private keys are readable
//! by their owner only.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::{arguments::CertArguments, failure::Failure, output};

/// Makes the files and says how to use them.
pub(crate) fn run(arguments: &CertArguments) -> Result<(), Failure> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).map_err(|error| cannot("create", folder, &error))?;
    let authority = authority(folder)?;
    // A request for a client certificate alone leaves the server's certificate as it is.
    let only_clients =
        arguments.host.is_empty() && !arguments.client.is_empty() && folder.join("server.pem").exists();
    let hosts = match arguments.host.as_slice() {
        _ if only_clients => Vec::new(),
        [] => DEFAULT_HOSTS.map(Into::into).to_vec(),
        hosts => hosts.to_vec(),
    };
    if let Some(name) = hosts.first() {
        let server = certificate(name, &hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        issue(folder, "server", &server, &authority, arguments.force)?;
    }
    for name in &arguments.client {
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(Failure::misuse(format_args!("`{name}` cannot be the name of a file and a client")));
        }
        let client = certificate(name, &[], ExtendedKeyUsagePurpose::ClientAuth)?;
        issue(folder, &format!("client-{name}"), &client, &authority, arguments.force)?;
    }
    if arguments.json {
        return output::line(made(folder, &hosts, &arguments.client));
    }
    explain(folder, &hosts, &arguments.client)
}

/// The authority of the folder, made if it is not there.
///
/// Only its key has to be read back: its name is always the same, and certificates refer to it by name and key.
fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>, Failure> {
    let (certificate_file, key_file) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    let params = authority_params()?;
    if key_file.exists() {
        let text = fs::read_to_string(&key_file).map_err(|error| cannot("read", &key_file, &error))?;
        let key = KeyPair::from_pem(&text).map_err(|error| cannot("use", &key_file, &error))?;
        if !certificate_file.exists() {
            return Err(Failure::new(format_args!("`{}` is there without `ca.pem`", key_file.display()))
                .hint("put the certificate back, or move the key away to make a new authority"));
        }
        return Ok(Issuer::new(params, key));
    }
    let key = KeyPair::generate().map_err(Failure::new)?;
    let certificate = params.self_signed(&key).map_err(Failure::new)?;
    write(&key_file, &key.serialize_pem(), Access::Owner, false)?;
    write(&certificate_file, &certificate.pem(), Access::Everybody, false)?;
    Ok(Issuer::new(params, key))
}

fn authority_params() -> Result<CertificateParams, Failure> {
    let mut params = params(AUTHORITY_NAME, &[], AUTHORITY_YEARS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn certificate(
    name: &str,
    hosts: &[String],
    purpose: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, Failure> {
    let mut params = params(name, hosts, CERTIFICATE_YEARS)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(name: &str, hosts: &[String], years: i32) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(hosts).map_err(|error| {
        Failure::misuse(format_args!("the hosts cannot be put into a certificate: {error}"))
            .hint("a host is a name such as `broker.example.org` or an address such as `10.0.0.7`")
    })?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    // From yesterday, so that a clock that is a little behind already trusts it.
    let first = OffsetDateTime::now_utc().saturating_sub(Duration::DAY).date();
    params.not_before = first.midnight().assume_utc();
    params.not_after = date_time_ymd(first.year() + years, first.month().into(), first.day().min(28));
    Ok(params)
}

fn issue(
    folder: &Path,
    stem: &str,
    params: &CertificateParams,
    authority: &Issuer<'static, KeyPair>,
    replace: bool,
) -> Result<(), Failure> {
    let key = KeyPair::generate().map_err(Failure::new)?;
    let certificate = params.signed_by(&key, authority).map_err(Failure::new)?;
    write(&folder.join(format!("{stem}.pem")), &certificate.pem(), Access::Everybody, replace)?;
    write(&folder.join(format!("{stem}-key.pem")), &key.serialize_pem(), Access::Owner, replace)
}

/// File access.
#[derive(Clone, Copy)]
enum Access {
    Owner,
    Everybody,
}

fn write(path: &Path, text: &str, access: Access, replace: bool) -> Result<(), Failure> {
    if replace && path.exists() {
        // A new file gets its permissions from the start; an old one would keep what it had.
        fs::remove_file(path).map_err(|error| cannot("replace", path, &error))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(match access {
            Access::Owner => 0o600,
            Access::Everybody => 0o644,
        });
    }
    #[cfg(not(unix))]
    let _on_unix_only = access;
    let mut file = options.open(path).map_err(|error| {
        let failure = cannot("create", path, &error);
        if path.exists() { failure.hint("`--force` replaces certificates") } else { failure }
    })?;
    file.write_all(text.as_bytes()).map_err(|error| cannot("write", path, &error))
}

/// The files as a program reads it; the server's where it was made.
fn made(folder: &Path, hosts: &[String], clients: &[String]) -> Value {
    let pair = |stem: &str| {
        let file = |end: &str| absolute(&folder.join(format!("{stem}{end}.pem")));
        (file(""), file("-key"))
    };
    let (certificate, key) = pair("server");
    let server = json!({ "certificate": certificate, "key": key, "hosts": hosts });
    let client = |name: &String| {
        let (certificate, key) = pair(&format!("client-{name}"));
        json!({ "certificate": certificate, "key": key, "subject": format!("CN={name}") })
    };
    json!({
        "authority": absolute(&folder.join("ca.pem")),
        "server": (!hosts.is_empty()).then_some(server),
        "clients": clients.iter().map(client).collect::<Vec<_>>(),
    })
}

fn explain(folder: &Path, hosts: &[String], clients: &[String]) -> Result<(), Failure> {
    let file = |name: &str| folder.join(name).display().to_string();
    output::line(format_args!("authority    {}", file("ca.pem")))?;
    if !hosts.is_empty() {
        output::line(format_args!("server       {}   for {}", file("server.pem"), hosts.join(", ")))?;
    }
    for name in clients {
        output::line(format_args!(
            "client       {}   subject CN={name}",
            file(&format!("client-{name}.pem"))
        ))?;
    }
    let address = hosts.iter().find(|host| host.parse::<IpAddr>().is_err()).or(hosts.first());
    let ca = absolute(&folder.join("ca.pem"));
    output::note(format_args!(
        "\nstart the broker   ferrybus --tls-certificate {} --tls-key {}\n\
         trust in Python    connection_verify=\"{ca}\" (Azure SDK), else SSL_CERT_FILE={ca}\n\
         trust in Node.js   NODE_EXTRA_CA_CERTS={ca}\n\
         trust here         ferrybus send orders --body hello --ca {ca} \\\n                     \
         --connection-string 'Endpoint=amqps://{};SharedAccessKeyName=…;SharedAccessKey=…'",
        file("server.pem"),
        file("server-key.pem"),
        address.map_or("localhost", String::as_str),
    ));
    Ok(())
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)).display().to_string()
}

fn cannot(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("cannot {what} `{}`: {error}", path.display()))
}

const AUTHORITY_NAME: &str = "Ferrybus development authority";
const AUTHORITY_YEARS: i32 = 10;
/// Some clients refuse server certificates that are valid for more than 825 days.
const CERTIFICATE_YEARS: i32 = 2;
const DEFAULT_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
