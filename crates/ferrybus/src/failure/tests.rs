use std::io;

use anyhow::Context as _;

use super::Failure;

#[derive(Debug, thiserror::Error)]
enum Layer {
    #[error("the body ended early")]
    Silent(#[source] io::Error),
    #[error("the body ended early: {0}")]
    Repeating(#[source] io::Error),
}

fn cause() -> io::Error {
    io::Error::other("connection reset by peer")
}

#[test]
fn a_sentence_goes_down_to_the_first_cause_and_says_nothing_twice() {
    let whole = "error: cannot ask here: the body ended early: connection reset by peer";
    for layer in [Layer::Silent(cause()), Layer::Repeating(cause())] {
        let failure = Failure::of(Err::<(), _>(layer).context("cannot ask here").unwrap_err());
        assert_eq!(failure.to_string(), whole);
    }
    assert_eq!(Failure::of(cause()).to_string(), "error: connection reset by peer");
    assert_eq!(
        Failure::of(cause()).hint("try again").to_string(),
        "error: connection reset by peer\nhint: try again"
    );
}

#[test]
fn a_not_found_failure_is_known_by_the_end_of_its_text() {
    let cases = [
        ("no such queue (amqp:not-found)", true),
        ("the answer was refused (status 404)", true),
        ("(status 404) is what it said", false),
        ("no such queue", false),
    ];
    for (text, missing) in cases {
        assert_eq!(Failure::new(text).is_not_found(), missing, "{text}");
        let with_cause = Failure::of(anyhow::Error::msg(text).context("cannot look"));
        assert_eq!(with_cause.is_not_found(), missing, "{text}");
    }
}
