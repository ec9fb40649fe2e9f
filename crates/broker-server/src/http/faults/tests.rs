use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn order(body: &str) -> Result<Value, String> {
    let order: Order = parse(body.as_bytes()).map_err(|refusal| refusal.to_string())?;
    let fault = order.fault(NOW).map_err(|refusal| refusal.to_string())?;
    Ok(shown(7, &fault, NOW))
}

#[test]
fn a_fault_order_names_fault_entity_and_end() {
    let cases = [
        (
            r#"{"kind":"server-busy","entity":"Orders","count":3}"#,
            json!({ "id": 7, "kind": "server-busy", "entity": "orders", "count": 3, "for_ms": null, "delay_ms": null }),
        ),
        (
            r#"{"kind":"delay-settlement","delay_ms":50,"for_ms":86400000}"#,
            json!({ "id": 7, "kind": "delay-settlement", "entity": "", "count": null, "for_ms": 86_400_000,
                "delay_ms": 50 }),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(order(body), Ok(expected), "{body}");
    }
    for kind in KINDS {
        let delay = if kind == "delay-settlement" { r#","delay_ms":1"# } else { "" };
        let said = order(&format!(r#"{{"kind":"{kind}","count":1000000{delay}}}"#));
        assert_eq!(said.unwrap()["kind"], kind);
    }
}

#[test]
fn an_order_that_makes_no_sense_is_refused() {
    let cases = [
        (r#"{"kind":"server-busy"}"#, "needs an end"),
        (r#"{"kind":"server-busy","count":0}"#, "`count` is not within 1 to 1000000"),
        (r#"{"kind":"server-busy","count":1000001}"#, "`count` is not within 1 to 1000000"),
        (r#"{"kind":"server-busy","for_ms":0}"#, "`for_ms` is not within"),
        (r#"{"kind":"server-busy","for_ms":86400001}"#, "`for_ms` is not within"),
        (r#"{"kind":"server-busy","count":1,"delay_ms":5}"#, "means nothing with `server-busy`"),
        (r#"{"kind":"delay-settlement","count":1}"#, "`delay_ms` is missing"),
        (r#"{"kind":"delay-settlement","count":1,"delay_ms":86400001}"#, "`delay_ms` is not within"),
        (r#"{"kind":"busy","count":1}"#, "`busy` is not one of `lose-lock`"),
        (r#"{"kind":"server-busy","count":1,"when":2}"#, "unknown field"),
        (r#"{"count":1}"#, "missing field `kind`"),
        ("", "not what is expected"),
    ];
    for (body, expected) in cases {
        let said = order(body).unwrap_err();
        assert!(said.contains(expected), "{body}: {said}");
    }
}
