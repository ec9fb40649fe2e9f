use serde_json::json;

use super::*;

fn read(text: &Value) -> Result<NamespaceSettings, String> {
    let body = serde_json::from_value(text.clone()).map_err(|error| error.to_string())?;
    settings(body, None).map_err(|refusal| refusal.to_string())
}

#[test]
fn each_limit_and_the_weight_have_the_range_that_a_file_has() {
    for limit in NamespaceLimit::ALL {
        let range = limit.range();
        let (least, most) = (*range.start(), *range.end());
        for (number, is_good) in [
            (least, true),
            (most, true),
            (most + 1, false),
            (least.wrapping_sub(1), false),
            (u64::MAX, false),
        ] {
            let found = read(&json!({ "limits": { (limit.key()): number } }));
            assert_eq!(found.is_ok(), is_good, "{} = {number}: {found:?}", limit.key());
            if let Err(text) = found {
                assert!(text.contains(limit.key()) && text.contains(&least.to_string()), "{text}");
            }
        }
        let none = read(&json!({ "limits": { (limit.key()): null } })).unwrap();
        assert_eq!(none.limits.get(limit), None);
    }
    for (weight, is_good) in [(0, false), (1, true), (1_000, true), (1_001, false)] {
        assert_eq!(read(&json!({ "weight": weight })).is_ok(), is_good, "{weight}");
    }
}

#[test]
fn the_version_changes_with_the_settings_and_with_the_namespace_alone() {
    let definition = NamespaceDefinition { uid: 7, ..NamespaceDefinition::of_default() };
    let of = |change: fn(&mut NamespaceDefinition)| {
        let mut changed = definition.clone();
        change(&mut changed);
        version(&changed)
    };
    let first = version(&definition);
    assert_eq!(first, of(|it| it.updated_at = Timestamp::from_millis(9)));
    assert_ne!(first, of(|it| it.uid = 8));
    assert_ne!(first, of(|it| it.settings.weight = 2));
    assert_ne!(first, of(|it| it.settings.held = true));
    assert_ne!(first, of(|it| it.settings.hostnames = vec!["a.example".into()]));
    assert!(check_version("x", &first, Some(&definition)).is_ok());
    assert!(check_version("x", &HeaderValue::from_static("*"), Some(&definition)).is_ok());
    assert!(check_version("x", &HeaderValue::from_static("\"0\""), Some(&definition)).is_err());
    assert!(check_version("x", &HeaderValue::from_static("*"), None).is_err());
}
