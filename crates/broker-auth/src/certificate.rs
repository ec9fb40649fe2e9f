//! Reads the subject out of a certificate that the TLS layer has verified.
//!
//! Invariant: bytes that are not a certificate give `None`; two different subjects never give one text.

use std::fmt::Write as _;

/// The subject of a DER certificate as RFC 4514 writes it, such as `CN=orders,O=Example`: last name first,
/// special characters escaped, attributes without a short name as `OID.hex=#hex`. `None` if it cannot be read or
/// is empty.
pub fn certificate_subject(certificate: &[u8]) -> Option<String> {
    let mut outer = Der(certificate);
    let mut fields = Der(Der(outer.take(SEQUENCE)?).take(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?; // serial number
    fields.take(SEQUENCE)?; // signature algorithm
    fields.take(SEQUENCE)?; // issuer
    fields.take(SEQUENCE)?; // validity
    let mut names = Der(fields.take(SEQUENCE)?);
    let mut parts = Vec::new();
    while !names.0.is_empty() {
        parts.push(relative_name(names.take(SET)?)?);
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// The names of hosts in a DER certificate: the DNS names among its subject alternative names (RFC 5280 section 4.2.1.6). None
/// where it cannot be read; addresses are not among them.
pub fn certificate_host_names(certificate: &[u8]) -> Vec<String> {
    alternative_names(certificate).unwrap_or_default()
}

/// When a DER certificate ends (`notAfter`, RFC 5280 section 4.1.2.5), in seconds since 1970. `None` where it cannot be read.
pub fn certificate_expiry(certificate: &[u8]) -> Option<u64> {
    let mut fields = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    fields.take(INTEGER)?; // serial number
    fields.take(SEQUENCE)?; // signature algorithm
    fields.take(SEQUENCE)?; // issuer
    let mut validity = Der(fields.take(SEQUENCE)?);
    validity.any()?;
    let (tag, text) = validity.any()?;
    seconds(tag, std::str::from_utf8(text).ok()?)
}

/// Reads `YYMMDDHHMMSSZ`, of which two digits are a year from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn seconds(tag: u8, text: &str) -> Option<u64> {
    let digits = text.strip_suffix('Z').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = match tag {
        UTC_TIME => digits.split_at_checked(2).map(|(year, rest)| (year.parse::<u64>().ok(), rest))?,
        GENERALIZED_TIME => digits.split_at_checked(4).map(|(year, rest)| (year.parse().ok(), rest))?,
        _ => return None,
    };
    let year = match (tag, year?) {
        (UTC_TIME, year @ ..50) => 2000 + year,
        (UTC_TIME, year) => 1900 + year,
        (_, year) => year,
    };
    if rest.len() != 10 {
        return None;
    }
    let field = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day, hour, minute, second) = (field(0)?, field(2)?, field(4)?, field(6)?, field(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_before(year, month).checked_add(day - 1)?.checked_sub(days_before(1970, 1))?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from the beginning of the year 0 to that of a month, in the Gregorian calendar. Years are counted from March, so that the day
/// that leap years have is their last.
const fn days_before(year: u64, month: u64) -> u64 {
    let (year, months) = if month > 2 { (year + 400, month - 3) } else { (year + 399, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * months + 2) / 5
}

fn alternative_names(certificate: &[u8]) -> Option<Vec<String>> {
    let mut fields = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
    let mut extensions = loop {
        let (tag, content) = fields.any()?;
        if tag == EXTENSIONS {
            break Der(Der(content).take(SEQUENCE)?);
        }
    };
    loop {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        if extension.take(OBJECT_ID)? != SUBJECT_ALTERNATIVE_NAME {
            continue;
        }
        // In front of the value may be whether it is critical.
        let value = loop {
            let (tag, content) = extension.any()?;
            if tag == OCTET_STRING {
                break content;
            }
        };
        let mut names = Der(Der(value).take(SEQUENCE)?);
        let mut found = Vec::new();
        while let Some((tag, content)) = names.any() {
            if tag == DNS_NAME {
                found.push(std::str::from_utf8(content).ok()?.to_owned());
            }
        }
        return Some(found);
    }
}

/// One relative distinguished name: attributes joined by `+`.
fn relative_name(set: &[u8]) -> Option<String> {
    let mut attributes = Der(set);
    let mut text = String::new();
    while !attributes.0.is_empty() {
        let mut attribute = Der(attributes.take(SEQUENCE)?);
        let id = attribute.take(OBJECT_ID)?;
        let value = attribute.0;
        let (tag, content) = attribute.any()?;
        if !text.is_empty() {
            text.push('+');
        }
        match (short_name(id), printable(tag, content)) {
            (Some(name), Some(value)) => {
                text.push_str(name);
                text.push('=');
                escape(value, &mut text);
            }
            _ => write_hex(id, value, &mut text),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// DER elements, one after the other.
struct Der<'b>(&'b [u8]);

impl<'b> Der<'b> {
    /// The content of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'b [u8]> {
        self.any().and_then(|(found, content)| (found == tag).then_some(content))
    }

    fn any(&mut self) -> Option<(u8, &'b [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            // A certificate is shorter than 2^32; indefinite lengths (0x80) are not DER.
            let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            length = digits.iter().fold(0_usize, |sum, &digit| (sum << 8) | usize::from(digit));
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((tag, content))
    }
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

fn printable(tag: u8, content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    match tag {
        UTF8_STRING => Some(text),
        PRINTABLE_STRING | IA5_STRING if text.is_ascii() => Some(text),
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

/// The attribute type and the whole element of its value in hexadecimal digits. The type is not spelt as dotted
/// numbers: nobody configures by it, it only has to stay distinct.
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

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
/// 2.5.29.17
const SUBJECT_ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

#[cfg(test)]
mod tests;
