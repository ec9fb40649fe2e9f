use http_body_util::BodyExt as _;

use super::*;

#[test]
fn each_refusal_has_its_status_and_says_why() {
    let nobody = RefusedLogin::unnamed(broker_auth::LoginRefusal::NoCredentials);
    let cases = [
        (Refusal::Bad("no".into()), 400, r#"{"error":"no"}"#),
        (Refusal::Unauthorized("who?".into(), Unproven::Missing, nobody), 401, r#"{"error":"who?"}"#),
        (Refusal::forbidden("you may not"), 403, r#"{"error":"you may not"}"#),
        (Refusal::NotFound("/x".into()), 404, r#"{"error":"there is nothing at `/x`"}"#),
        (Refusal::Method { allow: "POST" }, 405, r#"{"error":"method is not one of `POST`"}"#),
        (Refusal::UpgradeRequired, 426, r#"{"error":"expected an upgrade to WebSocket, version 13"}"#),
        (Refusal::TooLarge, 413, r#"{"error":"the body is larger than 1048576 bytes"}"#),
        (Refusal::TooSlow, 408, r#"{"error":"the body did not come in time"}"#),
        (Refusal::Stopping, 503, r#"{"error":"the broker is stopping"}"#),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (refusal, status, body) in cases {
        let answer = refusal.answer();
        assert_eq!(answer.status().as_u16(), status, "{refusal:?}");
        assert_eq!(answer.headers().contains_key(WWW_AUTHENTICATE), status == 401, "{refusal:?}");
        assert_eq!(answer.headers().get(ALLOW).is_some_and(|allow| allow == "POST"), status == 405);
        let said = runtime.block_on(answer.into_body().collect()).unwrap().to_bytes();
        assert_eq!(said, body.as_bytes(), "{refusal:?}");
    }
}
