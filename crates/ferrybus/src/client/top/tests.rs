use clap::Parser as _;

use super::*;
use crate::arguments::{Arguments, Command};

fn app() -> App {
    let arguments = match Arguments::try_parse_from(["ferrybus", "top"]).unwrap().command {
        Some(Command::Top(arguments)) => arguments,
        other => panic!("{other:?}"),
    };
    let string = "Endpoint=sb://there:1;UseDevelopmentEmulator=true".to_owned();
    let connect = crate::arguments::ConnectArguments { connection_string: Some(string), ..arguments.connect };
    let arguments = TopArguments { connect, ..arguments };
    let target = BrokerEndpoint::new(&arguments.connect).unwrap();
    App::new(&target, &arguments, Duration::from_secs(2), sample(&[("orders", 3), ("audit", 7)]))
}

fn sample(entries: &[(&str, u64)]) -> MetricsByEntity {
    let lines = entries.iter().map(|(name, active)| {
        format!("ferrybus_entity_messages{{entity=\"{name}\",kind=\"queue\",state=\"active\"}} {active}\n")
    });
    metrics::read(&lines.collect::<String>())
}

fn press(app: &mut App, keys: &str) -> KeyAction {
    let code = |letter| match letter {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '\u{8}' => KeyCode::Backspace,
        letter => KeyCode::Char(letter),
    };
    keys.chars().map(|letter| app.on_key(KeyEvent::new(code(letter), KeyModifiers::NONE))).last().unwrap()
}

fn names(app: &App) -> Vec<&str> {
    app.view.rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn keys_sort_filter_pause_and_quit() {
    let mut app = app();
    assert_eq!(names(&app), ["audit", "orders"], "by active messages");
    press(&mut app, "r");
    assert_eq!(names(&app), ["orders", "audit"]);
    press(&mut app, "rn/ORD");
    assert_eq!((names(&app), app.view.is_editing), (vec!["orders"], true));
    press(&mut app, "\u{8}q\u{8}\n");
    assert_eq!((app.view.filter.as_str(), app.view.is_editing), ("OR", false));
    press(&mut app, "/\u{1b}");
    assert_eq!(app.view.rows.len(), 2);
    press(&mut app, "p>");
    assert_eq!((app.view.is_paused, app.view.sort), (true, Column::Kind));
    assert_eq!(press(&mut app, "q"), KeyAction::Quit);
    assert_eq!(press(&mut app, "\u{1b}"), KeyAction::Quit);
    assert_eq!(app.on_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), KeyAction::Quit);
}

#[test]
fn the_marked_line_stays_within_the_table() {
    let mut app = app();
    app.on_key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    assert_eq!(app.view.selected, 1);
    app.on_sample(Ok((sample(&[("orders", 3)]), false)));
    assert_eq!(app.view.selected, 0);
    app.on_sample(Ok((sample(&[]), true)));
    app.on_key(KeyEvent::new(KeyCode::Up, KeyModifiers::NONE));
    assert_eq!((app.view.selected, app.view.rows.len()), (0, 0));
}

#[test]
fn the_last_figures_stay_while_the_broker_is_away() {
    let mut app = app();
    app.on_sample(Err(Failure::new("cannot ask there:1: connection refused").hint("is it running?")));
    assert_eq!(app.view.error.as_deref(), Some("cannot ask there:1: connection refused"));
    assert_eq!(app.view.rows.len(), 2);
    app.on_sample(Ok((sample(&[("orders", 3)]), false)));
    assert_eq!((app.view.error.as_deref(), app.view.rows.len()), (None, 1));
}
