//! Setup of each example.

use super::page::Figures;

/// One block of a page.
#[derive(Debug)]
pub(super) struct Example {
    /// Page and number of the block.
    pub(super) block: &'static str,
    pub(super) play: Play,
    /// Files that are there before.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Text typed in place of the shown one, where the shown path would be the machine's own.
    pub(super) instead: &'static [(&'static str, &'static str)],
    pub(super) figures: Figures,
}

/// Way in which a block is played.
#[derive(Clone, Copy, Debug)]
pub(super) enum Play {
    /// Beside a broker with these arguments, after these commands.
    WithBroker { serve: &'static [&'static str], before: &'static [&'static str] },
    /// Without one.
    Alone { before: &'static [&'static str] },
    /// Its last command is a broker: it becomes ready and stops.
    Starts,
    /// Not here, because.
    Elsewhere(#[expect(dead_code, reason = "for who reads the table")] &'static str),
}

const fn example(block: &'static str, play: Play) -> Example {
    Example { block, play, files: &[], instead: &[], figures: Figures::AsShown }
}

const fn beside(serve: &'static [&'static str], before: &'static [&'static str]) -> Play {
    Play::WithBroker { serve, before }
}

/// A journal as a kill leaves it.
const WRITTEN: &[&str] = &[
    "ferrybus --listen 127.0.0.1:0 --data-dir ferrybus-data --queue orders > ready & broker=$!",
    "until grep -q Endpoint ready; do :; done",
    "export FERRYBUS_CONNECTION_STRING=\"$(grep Endpoint ready | tr -d ' ')\"",
    "for n in 1 2 3 4 5; do ferrybus send orders --body \"tea $n.\" || exit; done",
    "kill -9 $broker; wait $broker || true",
];

/// The same with damage in the middle.
const DAMAGED: &[&str] = &[
    WRITTEN[0],
    WRITTEN[1],
    WRITTEN[2],
    WRITTEN[3],
    WRITTEN[4],
    "at=$(grep -obUa 'tea 3.' ferrybus-data/00000000.segment | head -n 1 | cut -d : -f 1)",
    "printf pea | dd of=ferrybus-data/00000000.segment bs=1 seek=$at conv=notrunc",
];

/// A broker that is a service, in a session without a terminal.
const SERVICE_TOML: &str = "listen = [\"127.0.0.1:0\"]\ndurability = \"none\"\n[[key]]\nname = \"root\"\nkey = \"k\"\n\
                            rights = [\"manage\"]\n[[queue]]\nname = \"orders\"\n";

const BEFORE_TOML: &str = "[[queue]]\nname = \"orders\"\nlock_duration = \"1m\"\n[[queue]]\nname = \"old\"\n\
                           [[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n";

const AFTER_TOML: &str = "[[queue]]\nname = \"letters\"\nmax_delivery_count = 3\n\
                          [[queue]]\nname = \"orders\"\nlock_duration = \"30s\"\n\
                          forward_dead_lettered_to = \"letters\"\n\
                          [[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n\
                          [[topic.subscription.rule]]\nname = \"big\"\nsql = \"amount > 100\"\n";

pub(super) const EXAMPLES: [Example; 36] = [
    example("README.md 1", Play::Elsewhere("the first is the next example, the second runs this test")),
    example("README.md 2", Play::Starts),
    example("README.md 3", beside(&["--queue", "orders"], &[])),
    example("CONTRIBUTING.md 1", Play::Elsewhere("as the README's")),
    Example {
        files: &[("ferrybus.toml", SERVICE_TOML)],
        instead: &[
            (
                "systemctl reload ferrybus",
                "kill -HUP $broker; until grep -q 'was read again' log; do :; done",
            ),
            ("sb://localhost;", "sb://'$place';"),
        ],
        ..example(
            "operations.md 1",
            Play::Alone {
                before: &[
                    "FERRYBUS_LOG=info setsid ferrybus > ready 2> log & broker=$!",
                    "trap 'kill $broker' EXIT",
                    "until grep -q Endpoint ready; do :; done",
                    "place=$(sed -n 's/.*sb:..\\([^;]*\\);.*/\\1/p' ready)",
                ],
            },
        )
    },
    example("operations.md 2", Play::Alone { before: WRITTEN }),
    example(
        "operations.md 3",
        Play::Alone {
            before: &[concat!(
                "cp -r ",
                env!("CARGO_MANIFEST_DIR"),
                "/tests/fixtures/data-0.1.0 ferrybus-data"
            )],
        },
    ),
    example("clients.md 1", Play::Elsewhere("it fetches hundreds of modules: the page says what was run")),
    example("features/audit.md 1", Play::Elsewhere("it never ends: `observe.rs` reads the audit log")),
    Example {
        figures: Figures::OfTheDay,
        ..example("features/command-line.md 1", Play::Alone { before: DAMAGED })
    },
    Example {
        figures: Figures::OfTheDay,
        ..example("features/command-line.md 2", Play::Alone { before: DAMAGED })
    },
    example("features/command-line.md 3", beside(&[], &[])),
    Example {
        files: &[("before.toml", BEFORE_TOML), ("after.toml", AFTER_TOML)],
        ..example("features/command-line.md 4", beside(&[], &["ferrybus config apply before.toml"]))
    },
    Example {
        instead: &[("/etc/bash_completion.d", "."), ("/usr/local/share/man/man1", ".")],
        ..example("features/command-line.md 5", Play::Alone { before: &[] })
    },
    Example {
        instead: &[("close 1", "close $id")],
        figures: Figures::OfTheDay,
        ..example(
            "features/command-line.md 6",
            beside(
                &["--queue", "orders"],
                &[
                    "(ferrybus receive orders --timeout 1h > received 2>&1 &)",
                    "until ferrybus connection list --json | grep -q '\"links\":1'; do :; done",
                    "id=$(ferrybus connection list --json | sed -n 's/.*\"id\":\\([0-9]*\\).*/\\1/p')",
                ],
            ),
        )
    },
    Example {
        files: &[("order.json", "{\"tea\":\"black\"}")],
        ..example("features/command-line.md 7", beside(&["--queue", "orders"], &[]))
    },
    example(
        "features/command-line.md 8",
        beside(&["--queue", "orders"], &["ferrybus send orders --body 'one black tea' --count 3"]),
    ),
    example("features/command-line.md 9", Play::Elsewhere("two hours pass in between: `letters.rs`")),
    example(
        "features/command-line.md 10",
        beside(
            &["--queue", "orders"],
            &[
                "ferrybus send orders --body other --message-id 42",
                "ferrybus receive orders --count 1 --settle dead-letter --reason other",
                "ferrybus send orders --body 'one black tea'",
                "ferrybus receive orders --count 1 --settle dead-letter --reason 'no tea left'",
            ],
        ),
    ),
    example(
        "features/command-line.md 11",
        beside(
            &[],
            &[
                "ferrybus queue create steps --requires-session",
                "ferrybus session state set steps one --body begun",
                "ferrybus session state set steps two --body begun",
            ],
        ),
    ),
    Example {
        files: &[("ferrybus.toml", "listen = [\"127.0.0.1:0\"]\n\n[limits]\nmax_frame_byte = 65536\n")],
        ..example("features/configuration.md 1", Play::Alone { before: &[] })
    },
    Example {
        files: &[("ferrybus.toml", "[[topic]]\nname = \"events\"\nstatus = \"receive-disabled\"\n")],
        ..example("features/configuration.md 2", Play::Alone { before: &[] })
    },
    Example {
        files: &[
            ("ferrybus.toml", "listen = [\"127.0.0.1:0\"]\n"),
            (
                "Config.json",
                "{\"UserConfig\": {\"Namespaces\": [{\"Name\": \"sbemulatorns\", \"Queues\": [\
                 {\"Name\": \"orders\", \"Properties\": {\"RequiresSession\": true}}]}]}}",
            ),
        ],
        ..example(
            "features/configuration.md 3",
            Play::Alone {
                before: &[
                    "ferrybus --queue orders > ready & broker=$!",
                    "until grep -q Endpoint ready; do :; done",
                    "kill $broker; wait $broker",
                ],
            },
        )
    },
    example("features/health.md 1", Play::Elsewhere("a disk fills up in between: `tests/it/observe.rs`")),
    example("performance.md 1", Play::Elsewhere("it measures for hours, with a release build")),
    example("features/packages.md 1", Play::Elsewhere("another target: the page says what was run")),
    example("features/packages.md 2", Play::Elsewhere("installs: the page says what was run")),
    example("features/packages.md 3", Play::Elsewhere("a container: the page says what was run")),
    example("features/packages.md 4", Play::Elsewhere("a container: the page says what was run")),
    example(
        "features/packages.md 5",
        Play::Elsewhere("a container and an installation: the page says that it was not run"),
    ),
    Example {
        instead: &[("ferrybus --testing &", "true")],
        figures: Figures::OfTheDay,
        ..example("features/testing.md 1", beside(&["--testing"], &[]))
    },
    example("features/testing.md 2", beside(&["--testing", "--queue", "orders"], &[])),
    example("features/tls.md 1", Play::Starts),
    example("features/tls.md 2", Play::Starts),
    example(
        "features/tls.md 3",
        Play::Alone { before: &["ferrybus cert dev", "ferrybus cert dev --client till-7"] },
    ),
    Example { figures: Figures::OfTheDay, ..example("features/namespaces.md 1", beside(&[], &[])) },
];
