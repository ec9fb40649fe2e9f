//! `ferrybus top`: what the entities of a broker are doing, live.
//!
//! Invariant: however the command ends, the terminal is as it was before.

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use hyper::{Method, StatusCode};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    BrokerEndpoint,
    http::{Http, HttpRequest},
};
use crate::{arguments::TopArguments, failure::Failure, output, property::human_time, table::Table};

mod metrics;
mod model;
mod screen;

pub(crate) use model::Column;

use metrics::MetricsByEntity;
use model::{Row, arrange, rows};
use screen::View;

const PATH: &str = "/metrics";

/// Shows the entities until somebody has seen enough, or once.
pub(crate) async fn top(target: BrokerEndpoint, arguments: &TopArguments) -> Result<(), Failure> {
    if arguments.once {
        let (sample, is_cut) = sample(&mut target.http()).await?;
        if is_cut {
            output::note("the broker does not show all of its entities");
        }
        return print(
            &arrange(&rows(&sample, None), &arguments.filter, arguments.sort, arguments.reverse),
            arguments.connect.json,
        );
    }
    if arguments.connect.json || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::misuse("`top` draws on a terminal, and there is none here")
            .hint("`ferrybus top --once` prints one sample, with `--json` as objects"));
    }
    let interval = arguments.interval.finite().filter(|interval| *interval >= INTERVAL_MIN);
    let interval = interval.ok_or_else(|| {
        Failure::misuse(format_args!(
            "`--interval` is too short, expected {} at least",
            human_time(INTERVAL_MIN)
        ))
    })?;
    let mut http = target.http();
    // Errors before the first sample are printed to the normal screen, which keeps them.
    let (first, is_cut) = sample(&mut http).await?;
    let mut app = App::new(&target, arguments, interval, first);
    app.view.is_cut = is_cut;
    let mut screen = Screen::open()?;
    app.run(&mut screen, &mut http).await
}

/// Shortest time between two samples.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// The entities, and whether there are more of them.
async fn sample(http: &mut Http<'_>) -> Result<(MetricsByEntity, bool), Failure> {
    let reply = http.send(HttpRequest::new(Method::GET, PATH)).await?;
    match reply.status {
        StatusCode::OK => {
            let text = String::from_utf8_lossy(&reply.body);
            Ok((metrics::read(&text), metrics::leaves_out(&text)))
        }
        StatusCode::NOT_FOUND => Err(Failure::new("this broker tells no figures")
            .hint(format_args!("`{PATH}` is where they would be; is it an older broker?"))),
        _ => Err(reply.failure("cannot read the broker's figures")),
    }
}

fn print(rows: &[Row], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return rows.iter().try_for_each(|row| output::line(row.json()));
    }
    if rows.is_empty() {
        output::note("there is no entity");
    }
    // Rates need two samples.
    let mut table =
        Table::new(&["NAME", "KIND", "ACTIVE", "SCHEDULED", "DEAD-LETTER", "LOCKED", "OLDEST"], 2);
    let columns = Column::ALL.into_iter().filter(|column| !matches!(column, Column::In | Column::Out));
    for row in rows {
        table.row(columns.clone().map(|column| row.cell(column)));
    }
    table.print()
}

/// The terminal while it is ours.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self, Failure> {
        let opened = ratatui::try_init();
        opened.map(Self).map_err(|error| Failure::new(format_args!("cannot draw on the terminal: {error}")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// State of the screen.
struct App {
    view: View,
    all: Vec<Row>,
    last: (MetricsByEntity, Instant),
    interval: Duration,
}

/// Action of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeyAction {
    Draw,
    Quit,
}

impl App {
    fn new(
        target: &BrokerEndpoint,
        arguments: &TopArguments,
        interval: Duration,
        first: MetricsByEntity,
    ) -> Self {
        let view = View {
            place: target.place(),
            interval: human_time(interval),
            rows: Vec::new(),
            total: 0,
            sort: arguments.sort,
            is_reversed: arguments.reverse,
            filter: arguments.filter.clone(),
            is_editing: false,
            is_paused: false,
            is_cut: false,
            error: None,
            selected: 0,
            with_colours: output::colours_wanted(),
        };
        let all = rows(&first, None);
        let mut app = Self { view, all, last: (first, Instant::now()), interval };
        app.arrange();
        app
    }

    async fn run(&mut self, screen: &mut Screen, http: &mut Http<'_>) -> Result<(), Failure> {
        let mut events = listen();
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one comes at once.
        ticks.tick().await;
        loop {
            let drawn = screen.0.draw(|frame| self.view.draw(frame));
            drawn.map_err(|error| Failure::new(format_args!("cannot draw on the terminal: {error}")))?;
            tokio::select! {
                event = events.recv() => match event {
                    Some(Event::Key(key)) if self.on_key(key) == KeyAction::Quit => return Ok(()),
                    Some(_) => {}
                    None => return Err(Failure::new("the terminal is gone")),
                },
                _ = ticks.tick() => {
                    if !self.view.is_paused {
                        self.on_sample(sample(http).await);
                    }
                }
            }
        }
    }

    fn on_sample(&mut self, sampled: Result<(MetricsByEntity, bool), Failure>) {
        match sampled {
            Ok((sample, is_cut)) => {
                self.view.is_cut = is_cut;
                let now = Instant::now();
                let (before, at) = &self.last;
                self.all = rows(&sample, Some((before, now.duration_since(*at))));
                self.last = (sample, now);
                self.view.error = None;
                self.arrange();
            }
            Err(failure) => {
                let text = failure.to_string();
                let first = text.lines().next().unwrap_or_default();
                self.view.error = Some(first.trim_start_matches("error: ").to_owned());
            }
        }
    }

    fn arrange(&mut self) {
        self.view.total = self.all.len();
        self.view.rows = arrange(&self.all, &self.view.filter, self.view.sort, self.view.is_reversed);
        self.view.selected = self.view.selected.min(self.view.rows.len().saturating_sub(1));
    }

    fn on_key(&mut self, key: KeyEvent) -> KeyAction {
        if key.kind == KeyEventKind::Release {
            return KeyAction::Draw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { KeyAction::Quit } else { KeyAction::Draw };
        }
        if self.view.is_editing {
            self.on_letter(key.code);
        } else if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
            return KeyAction::Quit;
        } else {
            self.on_command(key.code);
        }
        self.arrange();
        KeyAction::Draw
    }

    /// While the filter is written.
    fn on_letter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.view.is_editing = false,
            KeyCode::Esc => {
                self.view.is_editing = false;
                self.view.filter.clear();
            }
            KeyCode::Backspace => drop(self.view.filter.pop()),
            KeyCode::Char(letter) if self.view.filter.chars().count() < FILTER_MAX => {
                self.view.filter.push(letter);
            }
            _ => {}
        }
    }

    fn on_command(&mut self, code: KeyCode) {
        let view = &mut self.view;
        match code {
            KeyCode::Char('/') => view.is_editing = true,
            KeyCode::Char('r') => view.is_reversed = !view.is_reversed,
            KeyCode::Char('p' | ' ') => view.is_paused = !view.is_paused,
            KeyCode::Char('>') | KeyCode::Right => view.sort = view.sort.beside(true),
            KeyCode::Char('<') | KeyCode::Left => view.sort = view.sort.beside(false),
            KeyCode::Down => view.selected = view.selected.saturating_add(1),
            KeyCode::Up => view.selected = view.selected.saturating_sub(1),
            KeyCode::PageDown => view.selected = view.selected.saturating_add(PAGE),
            KeyCode::PageUp => view.selected = view.selected.saturating_sub(PAGE),
            KeyCode::Home => view.selected = 0,
            KeyCode::End => view.selected = usize::MAX,
            KeyCode::Char(letter) => {
                if let Some(column) = Column::ALL.into_iter().find(|column| column.key() == letter) {
                    view.sort = column;
                }
            }
            _ => {}
        }
    }
}

/// Letters of a filter.
const FILTER_MAX: usize = 60;
/// Lines of a page.
const PAGE: usize = 10;

/// Keys and changes of size, as they come. The thread ends with the process, or when nobody listens.
fn listen() -> mpsc::UnboundedReceiver<Event> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if tell.send(event).is_err() {
                return;
            }
        }
    });
    told
}

#[cfg(test)]
mod tests;
