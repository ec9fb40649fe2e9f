use super::*;

fn complaint(text: &str) -> String {
    Settings::parse(text, "ferrybus.toml").unwrap_err().to_string()
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_name() {
    let bad = "error: bad configuration in `ferrybus.toml`, line";
    let cases = [
        ("lisen = []", format!("{bad} 1: unknown key `lisen`\nhint: did you mean `listen`?")),
        ("\n\ndata-dir = \"x\"", format!("{bad} 3: unknown key `data-dir`\nhint: did you mean `data_dir`?")),
        (
            "[limits]\nmax_frame_byte = 512",
            format!("{bad} 2: unknown key `max_frame_byte`\nhint: did you mean `max_frame_bytes`?"),
        ),
        (
            "[[queue]]\nname = \"a\"\nlock_time = \"30s\"",
            format!(
                "{bad} 3: unknown key `lock_time`\nhint: the keys known here are `name`, `namespace`, `status`, `lock_duration`, `hold`, \
                 `max_delivery_count`, `default_time_to_live`, `dead_letter_on_expiration`, `requires_session`, \
                 `requires_duplicate_detection`, `duplicate_detection_window`, `forward_to`, \
                 `forward_dead_lettered_to`, `auto_delete_on_idle`, `max_size_bytes`, `max_message_bytes`, \
                 `user_metadata`, `enable_partitioning`"
            ),
        ),
        ("[[keys]]\nname = \"a\"", format!("{bad} 1: unknown key `keys`\nhint: did you mean `key`?")),
        (
            "[log]\nformats = \"json\"",
            format!("{bad} 2: unknown key `formats`\nhint: did you mean `format`?"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn wrong_values_are_named_with_their_line() {
    let cases = [
        (
            "missing_right = \"never\"",
            "line 1: unknown variant `never`, expected `forbidden` or `unauthorized`",
        ),
        ("auto_create = \"yes\"", "line 1: invalid type: string \"yes\", expected a boolean"),
        ("durability = \"never\"", "line 1: unknown variant `never`, expected one of `fsync`, `os`, `none`"),
        (
            "[limits]\nidle_time_out = 30",
            "line 2: invalid type: integer `30`, expected a length of time with its unit",
        ),
        ("[limits]\nidle_time_out = \"30\"", "line 2: `30` is not a length of time, expected"),
        ("[journal]\ncache_bytes = \"lots\"", "line 2: `lots` is not a size, expected"),
        ("[journal]\ncache_bytes = -1", "line 2: `-1` is not a size, expected"),
        ("listen = ", "line 1: "),
    ];
    for (text, expected) in cases {
        let found = complaint(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn a_complaint_does_not_show_the_secret_next_to_it() {
    let text = complaint("[[user]]\nname = \"a\"\npassword = \"hush\"\npasword_file = \"x\"");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn paths_in_a_file_start_at_its_folder() {
    let text = "data_dir = \"d\"\nemulator_config = \"/abs/c\"\n[tls]\ncertificate = \"c\"\n[[key]]\nkey_file = \"k\"";
    let mut settings = Settings::parse(text, "f").unwrap();
    settings.resolve(Path::new("/etc/ferrybus"));
    assert_eq!(settings.data_dir.as_deref(), Some(Path::new("/etc/ferrybus/d")));
    assert_eq!(settings.emulator_config.as_deref(), Some(Path::new("/abs/c")));
    assert_eq!(settings.tls.unwrap().certificate.as_deref(), Some(Path::new("/etc/ferrybus/c")));
    assert_eq!(settings.key[0].key_file.as_deref(), Some(Path::new("/etc/ferrybus/k")));
}

/// The reference file documents every key as a comment `# key = value`; so that it cannot lag behind, it is read
/// here with the comment signs taken off.
const REFERENCE: &str = include_str!("../../../../docs/ferrybus.reference.toml");

fn uncommented() -> String {
    let key = |line: &str| {
        let line = line.strip_prefix("# ")?;
        let word = line.split([' ', '=']).next()?;
        let names_a_key = line.starts_with(&format!("{word} = "))
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        (names_a_key || line.starts_with('[')).then(|| line.to_owned())
    };
    REFERENCE.lines().map(|line| key(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_reference_file_is_read_as_it_is_and_with_every_key_switched_on() {
    Settings::parse(REFERENCE, "reference").unwrap();
    Settings::parse(&uncommented(), "reference").unwrap();
}

#[test]
fn the_reference_file_names_every_key() {
    let text = uncommented();
    for table in [
        "",
        "[tls]\n",
        "[limits]\n",
        "[journal]\n",
        "[log]\n",
        "[metrics]\n",
        "[telemetry]\n",
        "[[address_prefix]]\n",
        "[[queue]]\n",
        "[[topic]]\n",
        "[[topic]]\n[[topic.subscription]]\n",
        "[[topic]]\n[[topic.subscription]]\n[[topic.subscription.rule]]\n",
        "[[key]]\n",
        "[[user]]\n",
        "[[issuer]]\n",
        "[[issuer]]\n[[issuer.grant]]\n",
        "[[certificate]]\n",
        "[[admin]]\n",
        "[[namespace]]\n",
        "[[namespace]]\n[[namespace.key]]\n",
        "[[namespace]]\n[[namespace.user]]\n",
    ] {
        // The refusal of a nonsense key lists the keys of its table.
        let error = toml::from_str::<Settings>(&format!("{table}nonsense = 1")).unwrap_err();
        let (_, keys) = unknown_key(error.message()).unwrap();
        assert!(!keys.is_empty());
        for key in keys {
            let written =
                [format!("\n{key} = "), format!("\n[{key}]"), format!("\n[[{key}]]"), format!(".{key}]]")];
            assert!(
                written.iter().any(|form| text.contains(form)),
                "{table}{key} is not in the reference file"
            );
        }
    }
}

/// The pages show pieces of a configuration: whoever copies one is not to be told that it is wrong.
#[test]
fn the_examples_of_the_pages_are_taken() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/features");
    let mut read = 0;
    for page in fs::read_dir(docs).unwrap() {
        let path = page.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let example = block.split("```").next().unwrap();
            if let Err(error) = Settings::parse(example, "example") {
                panic!("{}: {error}\n{example}", path.display());
            }
            read += 1;
        }
    }
    assert!(read >= 9, "{read} examples were found");
}
