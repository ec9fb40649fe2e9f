use super::*;

fn read(text: &str) -> Result<AddressPrefixes, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        address_prefix: Vec<AddressPrefixEntry>,
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    address_prefixes(&file.address_prefix).map_err(|failure| failure.to_string())
}

#[test]
fn a_table_is_a_prefix_and_no_table_leaves_the_built_in_ones() {
    assert_eq!(read("").unwrap(), AddressPrefixes::default());
    let read = read(
        "[[address_prefix]]\nprefix = \"jms.queue.\"\nkind = \"queue\"\n[[address_prefix]]\nprefix = \"/temp/\"\nkind = \
         \"temporary-topic\"\npart_of_name = true",
    );
    let expected = AddressPrefixes::with(&[
        AddressPrefix { text: "jms.queue.".into(), kind: Some(NodeKind::Queue), is_part_of_name: false },
        AddressPrefix { text: "/temp/".into(), kind: Some(NodeKind::TemporaryTopic), is_part_of_name: true },
    ]);
    assert_eq!(read.unwrap(), expected.unwrap());
}

#[test]
fn a_bad_prefix_is_refused_with_its_text() {
    for (table, expected) in [
        ("kind = \"queue\"", "`address_prefix`: the prefix `` has no text"),
        ("prefix = \"/\"\nkind = \"queue\"", "the prefix `/` has no text"),
        ("prefix = \"a.\"\npart_of_name = true", "the prefix `a.` has no effect"),
        ("prefix = \"amqp://\"\nkind = \"queue\"", "the prefix `amqp://` is taken: a URI begins so"),
        ("prefix = \"a\\n\"\nkind = \"queue\"", "the prefix `a\\n` cannot be in an address"),
        ("prefix = \"a.\"\nkind = \"exchange\"", "unknown variant `exchange`"),
        ("prefix = \"a.\"\nkinds = \"queue\"", "unknown field `kinds`"),
        (
            "prefix = \"a.\"\nkind = \"queue\"\n[[address_prefix]]\nprefix = \"a.\"\nkind = \"topic\"",
            "the prefix `a.` is given twice",
        ),
    ] {
        let complaint = read(&format!("[[address_prefix]]\n{table}")).unwrap_err();
        assert!(complaint.contains(expected), "{complaint}");
    }
}
