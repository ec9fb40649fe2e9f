use super::{Measured, table};

fn row(broker: &str, value: f64, higher_is_better: bool, cpu_us: Option<f64>) -> Measured {
    let (title, broker) = ("t".to_owned(), broker.to_owned());
    Measured { title, broker, value, unit: "x", higher_is_better, cpu_us, ..Measured::default() }
}

fn advantage(ours: Measured, theirs: Measured) -> String {
    let text = table(&[ours, theirs], &["Ferrybus", "Peer"]);
    let line = text.lines().nth(2).unwrap();
    line.split('|').rev().nth(2).unwrap().trim().to_owned()
}

#[test]
fn the_advantage_is_above_one_where_we_are_better() {
    let cases = [
        // higher is better, ours, theirs, shown
        (true, 800.0, 400.0, "2.00"),
        (false, 2.0, 12.0, "6.00"),
        (false, 12.0, 2.0, "0.17"),
    ];
    for case @ (higher, ours, theirs, shown) in cases {
        let shown_here = advantage(row("Ferrybus", ours, higher, None), row("Peer", theirs, higher, None));
        assert_eq!(shown_here, shown, "{case:?}");
    }
}

#[test]
fn cpu_is_compared_beside_the_value() {
    let shown = advantage(row("Ferrybus", 800.0, true, Some(1.5)), row("Peer", 400.0, true, Some(4.5)));
    assert_eq!(shown, "2.00, CPU 3.00");
}

#[test]
fn a_scenario_without_a_result_has_no_ratio() {
    let broken = Measured { error: Some("no answer".to_owned()), ..row("Peer", 0.0, true, None) };
    assert_eq!(advantage(row("Ferrybus", 800.0, true, None), broken), "");
}
