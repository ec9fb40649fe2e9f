use proptest::prelude::*;

use super::*;

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out.push(short),
        Ok(byte) => out.extend([0x81, byte]),
        Err(_) => {
            out.extend([0x82, u8::try_from(length >> 8).unwrap(), u8::try_from(length & 0xff).unwrap()]);
        }
    }
    out.extend(content);
    out
}

fn attribute(id: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[element(OBJECT_ID, id), element(tag, value)].concat())
}

/// A certificate with these parts; nobody has signed it.
struct Parts {
    version: bool,
    subject: Vec<Vec<u8>>,
    not_after: Vec<u8>,
    extensions: Vec<Vec<u8>>,
}

impl Parts {
    fn der(&self) -> Vec<u8> {
        let subject: Vec<u8> = self.subject.iter().flat_map(|name| element(SET, name)).collect();
        let version = if self.version { element(VERSION, &element(INTEGER, &[2])) } else { Vec::new() };
        let algorithm = element(SEQUENCE, &element(OBJECT_ID, &[0x2b, 0x65, 0x70]));
        let bits = element(BIT_STRING, &[0, 7]);
        let extensions = match &*self.extensions {
            [] => Vec::new(),
            all => element(EXTENSIONS, &element(SEQUENCE, &all.concat())),
        };
        let fields = [
            version,
            element(INTEGER, &[1]),
            algorithm.clone(),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &[element(UTC_TIME, b"200101000000Z"), self.not_after.clone()].concat()),
            element(SEQUENCE, &subject),
            element(SEQUENCE, &[algorithm.clone(), bits.clone()].concat()),
            extensions,
        ];
        element(SEQUENCE, &[element(SEQUENCE, &fields.concat()), algorithm, bits].concat())
    }
}

fn certificate(names: &[Vec<u8>], version: bool) -> Vec<u8> {
    let not_after = element(UTC_TIME, b"300101000000Z");
    Parts { version, subject: names.to_vec(), not_after, extensions: Vec::new() }.der()
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
/// 2.5.29.17
const SUBJECT_ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
const CN: &[u8] = &[0x55, 4, 3];
const O: &[u8] = &[0x55, 4, 10];

#[test]
fn subjects_are_written_as_rfc_4514_says() {
    let long = "x".repeat(300);
    let cases: [(Vec<Vec<u8>>, Option<&str>); 9] = [
        (
            vec![attribute(O, UTF8_STRING, b"Shop"), attribute(CN, PRINTABLE_STRING, b"till")],
            Some("CN=till,O=Shop"),
        ),
        (vec![attribute(CN, UTF8_STRING, "kasa Łódź".as_bytes())], Some("CN=kasa Łódź")),
        // A comma inside a name must not look like a second name.
        (vec![attribute(CN, UTF8_STRING, b"x,CN=admin")], Some("CN=x\\,CN\\=admin")),
        (vec![attribute(CN, UTF8_STRING, b" #a\n ")], Some("CN=\\ #a\\0a\\ ")),
        (vec![attribute(CN, UTF8_STRING, b"#a")], Some("CN=\\#a")),
        (
            vec![[attribute(CN, UTF8_STRING, b"a"), attribute(O, UTF8_STRING, b"b")].concat()],
            Some("CN=a+O=b"),
        ),
        (vec![attribute(&[0x55, 4, 5], PRINTABLE_STRING, b"7")], Some("OID.550405=#130137")),
        (vec![attribute(CN, UTF8_STRING, long.as_bytes())], None),
        (vec![], None),
    ];
    for (names, expected) in cases {
        let expected = if names.first().is_some_and(|name| name.len() > 300) {
            Some(format!("CN={long}"))
        } else {
            expected.map(Into::into)
        };
        for version in [true, false] {
            assert_eq!(certificate_subject(&certificate(&names, version)), expected);
        }
    }
}

#[test]
fn a_cut_certificate_has_no_subject() {
    let whole = certificate(&[attribute(CN, UTF8_STRING, b"till")], true);
    for length in 0..whole.len() {
        assert_eq!(certificate_subject(&whole[..length]), None, "{length}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _subject = certificate_subject(&bytes);
    }

    #[test]
    fn reading_changed_certificates_never_panics(at in 0_usize..140, to in any::<u8>()) {
        let mut bytes = certificate(&[attribute(O, UTF8_STRING, b"Shop"), attribute(CN, UTF8_STRING, b"till")], true);
        let at = at % bytes.len();
        bytes[at] = to;
        let _subject = certificate_subject(&bytes);
    }
}

#[test]
fn the_dns_names_of_a_certificate_are_found_among_its_alternative_names() {
    let names = [
        element(DNS_NAME, b"broker.example.org"),
        element(0x87, &[10, 0, 0, 7]),
        element(DNS_NAME, b"*.bus"),
    ];
    let value = element(OCTET_STRING, &element(SEQUENCE, &names.concat()));
    let other =
        element(SEQUENCE, &[element(OBJECT_ID, &[0x55, 0x1d, 0x0f]), element(OCTET_STRING, &[1])].concat());
    for critical in [Vec::new(), element(1, &[0xff])] {
        let id = element(OBJECT_ID, &SUBJECT_ALTERNATIVE_NAME);
        let extension = element(SEQUENCE, &[id, critical, value.clone()].concat());
        let extensions = vec![other.clone(), extension];
        let not_after = element(UTC_TIME, b"300101000000Z");
        let certificate = Parts { version: true, subject: Vec::new(), not_after, extensions }.der();
        assert_eq!(certificate_host_names(&certificate), ["broker.example.org", "*.bus"]);
        for end in 0..certificate.len() {
            assert!(certificate_host_names(&certificate[..end]).is_empty(), "cut at {end}");
        }
    }
    assert!(certificate_host_names(&certificate(&[], true)).is_empty(), "without extensions");
}

proptest! {
    #[test]
    fn no_bytes_of_a_certificate_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        certificate_host_names(&bytes);
    }
}

#[test]
fn the_end_of_a_certificate_is_read_in_both_forms() {
    let cases = [
        (UTC_TIME, "700101000000Z", Some(0)),
        (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
        (UTC_TIME, "500101000000Z", None),
        (UTC_TIME, "000229120000Z", Some(951_825_600)),
        (UTC_TIME, "240301000000Z", Some(1_709_251_200)),
        (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
        (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
        (UTC_TIME, "20500101000000Z", None),
        (UTC_TIME, "240301000000+0100", None),
        (UTC_TIME, "241301000000Z", None),
        (UTC_TIME, "2403", None),
        (INTEGER, "240301000000Z", None),
    ];
    for (tag, text, expected) in cases {
        let not_after = element(tag, text.as_bytes());
        let certificate =
            Parts { version: true, subject: Vec::new(), not_after, extensions: Vec::new() }.der();
        assert_eq!(certificate_expiry(&certificate), expected, "{text}");
    }
    assert_eq!(certificate_expiry(b"none"), None);
}
