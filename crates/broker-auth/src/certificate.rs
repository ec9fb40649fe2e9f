//! Subject, host names and end of a certificate.
//!
//! Invariant: bytes that are not a certificate give `None`; two different subjects never give one text.

use std::fmt::Write as _;

use x509_cert::{
    Certificate,
    attr::AttributeTypeAndValue,
    der::{Any, Decode as _, Encode as _, Tag, Tagged as _},
    ext::pkix::{SubjectAltName, name::GeneralName},
    name::RelativeDistinguishedName,
};

/// The subject of a DER certificate as RFC 4514 writes it, such as `CN=orders,O=Example`: last name first,
/// special characters escaped, attributes without a short name as `OID.hex=#hex`. `None` if it cannot be read or
/// is empty.
pub fn certificate_subject(certificate: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let names = certificate.tbs_certificate().subject().iter_rdn();
    let mut parts: Vec<_> = names.map(relative_name).collect::<Option<_>>()?;
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The names of hosts in a DER certificate: the DNS names among its subject alternative names (RFC 5280 section
/// 4.2.1.6). None where it cannot be read; addresses are not among them.
pub fn certificate_host_names(certificate: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let names = certificate.tbs_certificate().get_extension();
    let Ok(Some((_, SubjectAltName(names)))) = names else { return Vec::new() };
    let dns_name = |name| if let GeneralName::DnsName(name) = name { Some(name.to_string()) } else { None };
    names.into_iter().filter_map(dns_name).collect()
}

/// When a DER certificate ends (`notAfter`, RFC 5280 section 4.1.2.5), in seconds since 1970. `None` where it cannot be
/// read.
pub fn certificate_expiry(certificate: &[u8]) -> Option<u64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
}

/// One relative distinguished name: attributes joined by `+`.
fn relative_name(name: &RelativeDistinguishedName) -> Option<String> {
    let mut text = String::new();
    for AttributeTypeAndValue { oid, value } in name.iter() {
        if !text.is_empty() {
            text.push('+');
        }
        match (short_name(oid.as_bytes()), printable(value)) {
            (Some(name), Some(value)) => {
                text.push_str(name);
                text.push('=');
                escape(value, &mut text);
            }
            _ => write_hex(oid.as_bytes(), &value.to_der().ok()?, &mut text),
        }
    }
    (!text.is_empty()).then_some(text)
}

fn short_name(id: &[u8]) -> Option<&'static str> {
    match id {
        [0x55, 0x04, 0x03] => Some("CN"),
        [0x55, 0x04, 0x06] => Some("C"),
        [0x55, 0x04, 0x07] => Some("L"),
        [0x55, 0x04, 0x08] => Some("ST"),
        [0x55, 0x04, 0x0a] => Some("O"),
        [0x55, 0x04, 0x0b] => Some("OU"),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19] => Some("DC"),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01] => Some("UID"),
        _ => None,
    }
}

fn printable(value: &Any) -> Option<&str> {
    let text = std::str::from_utf8(value.value()).ok()?;
    match value.tag() {
        Tag::Utf8String => Some(text),
        Tag::PrintableString | Tag::Ia5String if text.is_ascii() => Some(text),
        _ => None,
    }
}

fn escape(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        match letter {
            '\0'..='\x1f' | '\x7f' => hex_pair(letter as u8, "\\", out),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', letter]),
            '#' | ' ' if at == 0 => out.extend(['\\', letter]),
            ' ' if at == last => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
}

/// The attribute type and the whole element of its value in hexadecimal digits. The type is not written as dotted
/// numbers, because it only has to stay distinct.
fn write_hex(id: &[u8], value: &[u8], out: &mut String) {
    out.push_str("OID.");
    for &byte in id {
        hex_pair(byte, "", out);
    }
    out.push_str("=#");
    for &byte in value {
        hex_pair(byte, "", out);
    }
}

fn hex_pair(byte: u8, before: &str, out: &mut String) {
    write!(out, "{before}{byte:02x}").expect("a String takes whatever is written to it");
}

#[cfg(test)]
mod tests;
