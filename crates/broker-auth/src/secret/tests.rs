use super::*;

#[test]
fn debug_does_not_show_the_text() {
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    assert_eq!(format!("{:?}", SaslResponse::new(b"\0user\0hunter2")), "SaslResponse(…)");
}

#[test]
fn only_the_same_text_matches() {
    let secret = Secret::new("hunter2");
    assert!(secret.matches(b"hunter2"));
    for other in ["", "hunter", "hunter22", "Hunter2", "hunter2\0"] {
        assert!(!secret.matches(other.as_bytes()), "{other:?}");
    }
}
