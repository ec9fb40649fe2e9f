//! Lines of the log that are about one of several namespaces.

use amqp_codec::performative::{Open, Performative};
use testkit::Wire;

use super::{KEY, Scene, exchange, with_message};
use crate::support::{code, ferrybus, stderr};

#[test]
fn each_line_of_a_connection_names_the_namespace_that_its_open_means() {
    let config = "[[namespace]]\nname = \"team-a\"\nhostnames = [\"a.test\"]\n\
         [[queue]]\nname = \"orders\"\nnamespace = \"team-a\"\n";
    let scene = Scene::new("connections-namespace", config, &[]);
    // The host name of the open, which is the container-id too, and the namespace.
    let cases = [
        ("vhost:team-a", "team-a"),
        ("TEAM-A.localhost", "team-a"),
        ("a.test", "team-a"),
        ("vhost:/", "default"),
        ("localhost", "default"),
    ];
    for (hostname, _) in cases {
        let mut wire = Wire::connect(scene.address()).unwrap();
        let open = Open { hostname: Some(hostname.into()), ..Open::new(hostname) };
        wire.script.sasl_plain(KEY, "SAS_KEY_VALUE").open_with(open).begin(0);
        wire.until(|frame| matches!(frame, Performative::Begin(_))).unwrap();
        wire.script.close(None);
        wire.flush().unwrap();
        drop(exchange(wire.stream(), b""));
    }
    // A token says who the client is; a bad one is refused, and so is a queue that there is not.
    let string = scene.broker.connection_string.clone();
    let wrong = string.replace("SAS_KEY_VALUE", "another");
    for (queue, string, expected) in [("orders", &string, 0), ("orders", &wrong, 1), ("missing", &string, 1)]
    {
        let line =
            ["send", queue, "--body", "x", "--namespace", "team-a", "--connection-string", string.as_str()];
        let output = ferrybus(&scene.folder.0, &line);
        assert_eq!(code(&output), expected, "{}", stderr(&output));
    }
    let lines = scene.end();
    for message in ["connection opened", "connection closed"] {
        let found = with_message(&lines, message);
        assert_eq!(found.len(), cases.len() + 3, "{lines:#?}");
        for (hostname, namespace) in cases {
            let line = found.iter().find(|line| line["container_id"] == hostname).unwrap();
            assert_eq!(line["namespace"], namespace, "{line}");
        }
        let of_commands = found.iter().filter(|line| cases.iter().all(|(id, _)| line["container_id"] != *id));
        assert!(
            of_commands.map(|line| &line["namespace"]).all(|namespace| namespace == "team-a"),
            "{found:#?}"
        );
    }
    let by_token = with_message(&lines, "connection authenticated by token");
    assert_eq!(by_token.len(), 2, "{lines:#?}");
    let login = lines.iter().filter(|line| line["action"] == "login");
    let missing =
        lines.iter().filter(|line| line["text"].as_str().is_some_and(|text| text.contains("missing")));
    for line in by_token.into_iter().chain(login.clone()).chain(missing.clone()) {
        assert_eq!(line["namespace"], "team-a", "{line}");
    }
    assert!(login.count() == 1 && missing.count() > 0, "{lines:#?}");
}
