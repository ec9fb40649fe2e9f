use super::{
    overrides::{override_with, renamed},
    *,
};
use broker_log::Durability;

use crate::settings::Settings;

#[test]
fn arguments_override_the_file() {
    let text =
        "listen = [\"10.0.0.1\"]\ndurability = \"os\"\n[[queue]]\nname = \"orders\"\nmax_delivery_count = 7";
    let mut settings = Settings::parse(text, "f").unwrap();
    let arguments = ServeArguments {
        listen: vec!["127.0.0.1".into()],
        durability: Some(Durability::None),
        queue: vec!["Orders".into(), "more".into()],
        ..ServeArguments::default()
    };
    override_with(&mut settings, &arguments);
    assert_eq!(settings.listen.as_deref(), Some(&["127.0.0.1".to_owned()][..]));
    assert_eq!(settings.durability, Some(Durability::None));
    let queues: Vec<_> = settings.queue.iter().map(|queue| (queue.name.as_str(), queue.keys())).collect();
    assert_eq!(queues, [("orders", vec!["max_delivery_count"]), ("more", vec![])]);
}

#[test]
fn silent_arguments_leave_the_file_alone() {
    let text = "listen = [\"10.0.0.1\"]\nauto_create = true\nanonymous = \"allow\"\n[log]\nlevel = \"debug\"";
    let mut settings = Settings::parse(text, "f").unwrap();
    override_with(&mut settings, &ServeArguments::default());
    assert_eq!(settings.listen.as_deref(), Some(&["10.0.0.1".to_owned()][..]));
    assert_eq!((settings.auto_create, settings.log.level.as_deref()), (Some(true), Some("debug")));
    assert_eq!(settings.anonymous, Some(crate::settings::Anonymous::Allow));
}

#[test]
fn arguments_under_their_earlier_names_are_taken_with_a_notice_each() {
    let mut settings = Settings::default();
    let earlier = ServeArguments {
        data: Some("d".into()),
        tls_cert: Some("c".into()),
        tls_key: Some("k".into()),
        log: Some("debug".into()),
        ..ServeArguments::default()
    };
    override_with(&mut settings, &earlier);
    assert_eq!(settings.data_dir.as_deref(), Some(Path::new("d")));
    assert_eq!(settings.tls.as_ref().and_then(|tls| tls.certificate.as_deref()), Some(Path::new("c")));
    assert_eq!(settings.log.level.as_deref(), Some("debug"));
    let notices: Vec<String> = renamed(&earlier).collect();
    let list = include_str!("../../../../docs/renamed.md");
    for (earlier, now) in
        [("--data", "--data-dir"), ("--tls-cert", "--tls-certificate"), ("--log", "--log-level")]
    {
        let notice = format!("`{earlier}` is the earlier name of `{now}` (docs/renamed.md)");
        assert!(notices.contains(&notice), "{notices:?}");
        assert!(list.contains(&format!("| `{earlier}` | `{now}` |")));
    }
    let mut settings = Settings::default();
    let now = ServeArguments {
        data_dir: Some("d".into()),
        tls_certificate: Some("c".into()),
        tls_key: Some("k".into()),
        log_level: Some("debug".into()),
        ..ServeArguments::default()
    };
    override_with(&mut settings, &now);
    assert_eq!(settings.data_dir.as_deref(), Some(Path::new("d")));
    assert_eq!(renamed(&now).count(), 0);
}
