use proptest::prelude::*;

use super::*;
use crate::raw::AnnotationValue;
use crate::types::{write_int, write_map, write_str};

/// A footer whose entries are written by `items`.
fn footer(count: usize, items: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, Section::Footer.code()]);
    write_map(&mut out, count * 2, items);
    out.freeze()
}

fn symbol(out: &mut BytesMut, text: &str) {
    write_entry(
        out,
        text.as_bytes(),
        RawValue::first(&[]).unwrap_or_else(|_| RawValue::first(&[0x40]).unwrap()),
    );
    out.truncate(out.len() - 1);
}

#[test]
fn strings_become_symbols_and_everything_else_stays() {
    let long = "k".repeat(300);
    let mixed = footer(4, |out| {
        write_str(out, "one");
        write_int(out, 1);
        symbol(out, "two");
        write_str(out, "value");
        write_str(out, &long);
        AnnotationValue::Null.write(out);
        write_int(out, 7);
        write_str(out, "of a key that is no text");
    });
    let expected = footer(3, |out| {
        symbol(out, "one");
        write_int(out, 1);
        symbol(out, "two");
        write_str(out, "value");
        symbol(out, &long);
        AnnotationValue::Null.write(out);
    });
    assert_eq!(with_symbol_keys(Section::Footer, &mixed), Ok(Some(expected.clone())));
    assert_eq!(with_symbol_keys(Section::Footer, &expected), Ok(None), "a second time changes nothing");
    assert_eq!(with_symbol_keys(Section::Footer, &[]), Ok(None), "no section");
    assert!(with_symbol_keys(Section::Footer, &[0x00, 0x53, 0x78, 0x40]).is_err());
}

proptest! {
    #[test]
    fn all_keys_are_symbols_afterwards_with_their_texts_and_values(
        entries in prop::collection::vec(("[a-z]{0,300}", any::<bool>(), any::<i32>()), 0..40),
    ) {
        let section = footer(entries.len(), |out| {
            for (key, is_symbol, value) in &entries {
                if *is_symbol { symbol(out, key) } else { write_str(out, key) }
                write_int(out, *value);
            }
        });
        let changed = with_symbol_keys(Section::Footer, &section).unwrap();
        prop_assert_eq!(changed.is_some(), entries.iter().any(|(_, is_symbol, _)| !is_symbol));
        let bytes = changed.unwrap_or(section);
        let found: Vec<_> = MapView::of_section(&bytes)
            .unwrap()
            .iter()
            .map(|(key, value)| (key.as_symbol().unwrap().to_owned(), value.as_i64().unwrap()))
            .collect();
        let expected: Vec<_> =
            entries.into_iter().map(|(key, _, value)| (key, i64::from(value))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _result = with_symbol_keys(Section::Footer, &bytes);
    }
}
