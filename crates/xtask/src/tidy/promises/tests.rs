use super::*;

const PAGE: &str = "\
| client | version | suite |
|---|---|---|
| Go SDK | azservicebus 1.11.0 | `azure-go` |

| case | what must hold | Go SDK | Perl SDK |
|---|---|---|---|
| `send-one` | it arrives | ✓ | ✓ |
| `peek` | it is seen | – | ✓ |
";

#[test]
fn a_test_that_is_named_after_a_client_says_that_it_is_scripted() {
    for (name, expected) in [
        ("dotnet_settles", true),
        ("a_spring_application_starts", true),
        ("jms_drains", true),
        ("scripted_dotnet_settles", false),
        ("replayed_settles_in_every_way", false),
        ("goes_on", false),
        ("java", false),
        ("a_client_settles", false),
    ] {
        assert_eq!(is_named_after_a_client(name), expected, "{name}");
    }
}

#[test]
fn versions_are_read_from_the_table_of_clients() {
    let expected = [Run { client: "Go SDK", version: "azservicebus 1.11.0", suite: "azure-go" }];
    assert_eq!(runs(PAGE), expected);
    for (text, version) in [
        ("azservicebus 1.11.0", Some("1.11.0")),
        ("1.2, as it is", Some("1.2")),
        ("the newest", None),
        ("v2", None),
    ] {
        assert_eq!(version_in(text), version, "{text}");
    }
}

#[test]
fn a_statement_about_clients_names_a_run_or_says_that_there_was_none() {
    for (statement, proofs, allowed) in [
        ("SDKs work.", "`interop: send-one`", true),
        ("SDKs work.", "`interop: peek`", false),
        ("SDKs work.", "`a_queue_works`", false),
        ("SDKs work.", "`scripted_dotnet_settles`", true),
        ("The JMS client works.", "`replayed_settles`", true),
        ("The JMS client works.", "open: no client of it", true),
        ("The Go SDK works.", "`interop: send-one`", true),
        ("rhea works.", "`interop: send-one`", false),
        ("rhea and SDKs work.", "`interop: send-one`", false),
        ("Queues work.", "`a_queue_works`", true),
    ] {
        let text = format!("| id | statement | tests |\n|---|---|---|\n| SET-1 | {statement} | {proofs} |\n");
        let broken = statements(&text, PAGE, &runs(PAGE));
        assert_eq!(broken.is_empty(), allowed, "{statement} {proofs}: {broken:?}");
    }
}

#[test]
fn a_mark_is_for_a_client_with_a_version_or_says_what_stood_in() {
    let of = |text: &str| marks(text, &runs(PAGE));
    let broken = of(PAGE);
    assert!(broken.len() == 1 && broken[0].starts_with("the column `Perl SDK` has no row"), "{broken:?}");
    let table = |heading: &str| format!("| asked | {heading} |\n|---|---|\n| peek | ✓ |\n");
    for (heading, allowed) in [
        ("Go SDK", true),
        (".NET SDK", false),
        (".NET SDK (scripted)", true),
        ("Microsoft.Azure.ServiceBus 3.4.0 for .NET, replayed", true),
        ("the broker", true),
    ] {
        assert_eq!(of(&table(heading)).is_empty(), allowed, "{heading}");
    }
    let rows = |row: &str| format!("| framework | what it does |\n|---|---|\n| {row} |\n");
    for (row, allowed) in [
        ("MassTransit | starts", false),
        ("MassTransit, scripted | starts", true),
        ("MassTransit | 8.2.0, starts", true),
        ("another one | starts", true),
    ] {
        assert_eq!(of(&rows(row)).is_empty(), allowed, "{row}");
    }
}

#[test]
fn a_name_of_a_client_is_a_whole_word() {
    for (text, expected) in
        [("the SDKs map", true), (".NET", true), ("Spring", true), ("offspring", false), ("SDKish", false)]
    {
        assert_eq!(names_a_client(text), expected, "{text}");
    }
}
