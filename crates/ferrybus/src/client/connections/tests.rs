use serde_json::json;

use super::*;

#[test]
fn a_client_that_shows_tokens_is_named_by_its_keys() {
    assert_eq!(user(&json!({"user": "anonymous", "keys": ["root", "audit"]})), "root,audit");
    assert_eq!(user(&json!({"user": "till", "keys": []})), "till");
    assert_eq!(user(&json!({})), "-");
}
