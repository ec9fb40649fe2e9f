use super::*;

fn file(text: &str) -> ConfigFile {
    ConfigFile::new(Path::new("ferrybus.toml"), text)
}

#[test]
fn keys_that_only_a_start_takes_in_are_told_apart_from_those_of_a_reload() {
    let before = "listen = [\"127.0.0.1\"]\n[tls]\ncertificate = \"a\"\n[log]\nlevel = \"info\"\nformat = \"text\"\n\
        [limits]\nmax_connections = 5\n[[key]]\nname = \"k\"\n[[namespace]]\nname = \"team-a\"\n[[queue]]\nname = \"q\"\n";
    let cases: [(&str, &str, &[&str]); 17] = [
        ("", "", &[]),
        ("listen = [\"127.0.0.1\"]", "listen = [ '127.0.0.1' ] # the same", &[]),
        ("listen = [\"127.0.0.1\"]", "listen = [\"::1\"]", &["listen"]),
        ("listen = [\"127.0.0.1\"]", "data_dir = \"d\"", &["data_dir", "listen"]),
        ("level = \"info\"", "level = \"debug\"", &[]),
        ("level = \"info\"", "slow_operation = \"1s\"", &["log.slow_operation"]),
        ("format = \"text\"", "format = \"json\"", &["log.format"]),
        ("certificate = \"a\"", "certificate = \"b\"", &[]),
        ("[tls]\ncertificate = \"a\"\n", "", &["tls"]),
        (
            "max_connections = 5",
            "max_connections = 6\nmax_links_per_connection = 7",
            &["limits.max_connections", "limits.max_links_per_connection"],
        ),
        ("[[key]]\nname = \"k\"\n", "[[user]]\nname = \"u\"\n", &[]),
        ("name = \"q\"", "name = \"r\"", &["queue"]),
        ("[[queue]]", "[[admin]]\nname = \"a\"\n[[namespace]]\nname = \"b\"\n[[queue]]", &[]),
        // Entities of a namespace that is new are made by the reload.
        (
            "[[queue]]",
            "[[namespace]]\nname = \"B\"\n[[queue]]\nname = \"p\"\nnamespace = \"b\"\n[[queue]]",
            &[],
        ),
        ("[[queue]]", "[[queue]]\nname = \"p\"\nnamespace = \"Default\"\n[[queue]]", &["queue"]),
        ("[[queue]]", "[[queue]]\nnamespace = \"team-a\"", &["queue", "queue of namespace team-a"]),
        (
            "[[queue]]",
            "[[topic]]\nname = \"t\"\nnamespace = \"Team-A\"\n[[queue]]",
            &["topic of namespace team-a"],
        ),
    ];
    for (old, new, expected) in cases {
        let (was, is) = (file(before), file(&before.replacen(old, new, usize::from(!old.is_empty()))));
        assert_eq!(was.differing(&is), expected, "{old:?} -> {new:?}");
        assert_eq!(is.differing(&was), expected, "{new:?} -> {old:?}");
    }
    assert!(!format!("{:?}", file("[telemetry]\nheaders = { api-key = \"secret\" }")).contains("secret"));
}
