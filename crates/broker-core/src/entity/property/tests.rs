use std::collections::BTreeSet;

use super::*;

fn numbers_once<T: Ord>(all: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    all.into_iter().all(|it| seen.insert(it))
}

#[test]
fn each_property_has_names_and_a_place_of_its_own() {
    assert!(numbers_once(EntityProperty::rows().map(|row| row.property)));
    assert!(numbers_once(EntityProperty::rows().map(|row| row.key)));
    assert!(numbers_once(EntityProperty::rows().map(|row| row.element)));
    for (property, row) in EntityProperty::ALL.iter().zip(EntityProperty::rows()) {
        assert_eq!(row.property, *property);
        assert!(row.config_json.iter().all(|kind| row.kinds.contains(kind)), "{}", row.key);
    }
    let places =
        |place: fn(Stored) -> Option<u64>| EntityProperty::rows().filter_map(move |row| place(row.stored));
    let number = |stored| if let Stored::Number(at) = stored { Some(at as u64) } else { None };
    let positions: BTreeSet<u64> = places(number).collect();
    assert_eq!(positions, (0..NUMBERS as u64).collect());
    assert_eq!(places(number).count(), NUMBERS);
    assert!(numbers_once(places(|stored| if let Stored::Flag(bit) = stored {
        Some(bit.into())
    } else {
        None
    })));
    assert!(numbers_once(places(|stored| match stored {
        Stored::Text(tag) | Stored::Byte(tag) => Some(tag.into()),
        _ => None,
    })));
}

#[test]
fn each_property_sets_its_own_field_and_no_other() {
    let other = |row: &PropertyRow| match row.value_type {
        PropertyType::Time | PropertyType::TimeOrForever => {
            SettingValue::Time(Some(Duration::from_secs(301)))
        }
        PropertyType::Flag | PropertyType::Kept(_) => {
            let SettingValue::Flag(on) = row.get(&EntitySettings::default()) else { panic!("{}", row.key) };
            SettingValue::Flag(!on)
        }
        PropertyType::Count(_) => SettingValue::Count(77),
        PropertyType::Bytes(_) => SettingValue::Bytes(Some(1 << 30)),
        PropertyType::Status => SettingValue::Status(EntityStatus::Disabled),
        PropertyType::LockLifetime => SettingValue::LockLifetime(LockLifetime::Lock),
        PropertyType::Text | PropertyType::Entity => SettingValue::Text(Some("x".into())),
    };
    for row in EntityProperty::rows() {
        let mut settings = EntitySettings::default();
        row.set(&mut settings, other(row)).unwrap();
        for seen in EntityProperty::rows() {
            let expected =
                if seen.property == row.property { other(row) } else { seen.get(&EntitySettings::default()) };
            assert_eq!(seen.get(&settings), expected, "{} sets {}", row.key, seen.key);
        }
        let wrong = if matches!(row.get(&settings), SettingValue::Count(_)) {
            SettingValue::Flag(true)
        } else {
            SettingValue::Count(1)
        };
        assert_eq!(row.set(&mut settings, wrong.clone()), Err(wrong), "{}", row.key);
    }
}
