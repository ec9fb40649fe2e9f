use serde_json::json;

use super::*;

#[test]
fn a_claim_fits_by_its_whole_value_only() {
    let cases = [
        (json!("admin"), "admin", true),
        (json!("admin"), "Admin", false),
        (json!("a admin b"), "admin", true),
        (json!("administrator"), "admin", false),
        (json!(["x", "admin"]), "admin", true),
        (json!(["admin x"]), "admin", false),
        (json!([["admin"]]), "admin", false),
        (json!(7), "7", true),
        (json!(true), "true", true),
        (json!(null), "", false),
        (json!({ "admin": 1 }), "", false),
        (json!("anything"), "", true),
    ];
    for (claim, value, expected) in cases {
        let grant = ClaimGrant { claim: "role".into(), value: value.into(), access: Access::NONE };
        let claims = json!({ "role": claim });
        assert_eq!(grant.fits(claims.as_object().unwrap()), expected, "{claims} against {value:?}");
        assert!(!grant.fits(&Map::new()));
    }
}
