use std::{fs, path::PathBuf};

use broker_auth::Credentials;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;

/// A folder that is gone at the end, with the files of an endpoint.
struct Files(PathBuf, TlsFiles);

impl Files {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ferrybus-endpoint-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = (folder.join("server.pem"), folder.join("server-key.pem"));
        let check_every = Duration::from_secs(10);
        Self(folder, TlsFiles { certificate, key, client_authorities: None, check_every })
    }

    /// Puts another file in the place of this one, as tools that renew certificates do.
    fn put(&self, path: &PathBuf, text: &str) {
        let beside = self.0.join("beside");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, path).unwrap();
    }

    fn put_pair(&self, (certificate, key): &(String, String)) {
        self.put(&self.1.certificate, certificate);
        self.put(&self.1.key, key);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A certificate for `name` that ends with this year, and its key.
fn pair(name: &str, year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_after = date_time_ymd(year, 12, 31);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

const END_OF_2040: u64 = 2_240_524_800;
const END_OF_2041: u64 = 2_272_060_800;

fn authority() -> Arc<Authority> {
    Arc::new(Authority::new(Credentials::default()))
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn refused(endpoint: &TlsEndpoint) -> bool {
    endpoint.watched().as_ref().unwrap().refused.is_some()
}

#[test]
fn a_changed_pair_is_shown_once_both_of_its_files_are_there() {
    let files = Files::new("pair");
    files.put_pair(&pair("one.example", 2040));
    let authority = authority();
    let endpoint = TlsEndpoint::new(Some(&files.1), Arc::clone(&authority)).unwrap();
    endpoint.check(now());
    assert_eq!((endpoint.expires_at(), refused(&endpoint)), (Some(END_OF_2040), false));
    let (certificate, key) = pair("two.example", 2041);
    files.put(&files.1.certificate, &certificate);
    for _ in 0..3 {
        endpoint.check(now());
        assert_eq!((endpoint.expires_at(), refused(&endpoint)), (Some(END_OF_2040), true));
    }
    assert!(authority.host_names().contains("one.example"));
    files.put(&files.1.key, &key);
    endpoint.check(now());
    assert_eq!((endpoint.expires_at(), refused(&endpoint)), (Some(END_OF_2041), false));
    // The names of the certificate are the broker's.
    let names = authority.host_names();
    assert!(names.contains("two.example") && !names.contains("one.example"));
}

#[test]
fn files_that_are_gone_or_broken_leave_the_certificate_that_is_shown() {
    let files = Files::new("broken");
    let good = pair("one.example", 2040);
    files.put_pair(&good);
    let endpoint = TlsEndpoint::new(Some(&files.1), authority()).unwrap();
    let key = files.1.key.clone();
    let cases: [&dyn Fn(); 3] =
        [&|| files.put(&files.1.certificate, "nonsense"), &|| fs::remove_file(&key).unwrap(), &|| {
            files.put(&key, "");
        }];
    for (number, spoil) in cases.into_iter().enumerate() {
        spoil();
        endpoint.check(now());
        assert!(refused(&endpoint) && endpoint.acceptor().is_some(), "case {number}");
        assert_eq!(endpoint.expires_at(), Some(END_OF_2040));
        files.put_pair(&good);
        endpoint.check(now());
        assert!(!refused(&endpoint), "case {number}");
    }
}

#[test]
fn a_pair_that_a_reload_has_refused_is_not_refused_once_more() {
    let files = Files::new("reload");
    files.put_pair(&pair("one.example", 2040));
    let endpoint = TlsEndpoint::new(Some(&files.1), authority()).unwrap();
    files.put(&files.1.key, "nonsense");
    assert!(endpoint.read(&files.1).is_err());
    assert!(refused(&endpoint), "told by whoever asked for the reload");
    let other = TlsFiles { key: files.0.join("missing"), ..files.1.clone() };
    let endpoint = {
        files.put_pair(&pair("one.example", 2040));
        TlsEndpoint::new(Some(&files.1), authority()).unwrap()
    };
    assert!(endpoint.read(&other).is_err());
    assert!(!refused(&endpoint), "those are other files");
}

#[test]
fn without_files_there_is_no_tls() {
    let endpoint = TlsEndpoint::new(None, authority()).unwrap();
    endpoint.check(now());
    assert!(endpoint.acceptor().is_none() && endpoint.expires_at().is_none());
}
