use broker_core::{Activity, EntitySettings, EntityVersion, NameScope, QueueId, Timestamp};

use super::*;
use crate::Host;

fn report(number: u64) -> EntityReport {
    EntityReport {
        name: format!("q{number:03}").into(),
        kind: EntityKind::Queue,
        settings: Box::new(EntitySettings::default()),
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(1),
        accessed_at: Timestamp::from_millis(1),
        version: EntityVersion::new(QueueId(1), Timestamp::from_millis(1)),
        active_and_deferred: 0,
        scheduled: 0,
        dead_letter: 0,
        transfer_dead_letter: 0,
        bytes: 0,
        max_message_bytes: 1 << 20,
        subscriptions: 0,
        activity: Activity::default(),
        sql_filters: 0,
        correlation_filters: 0,
    }
}

fn context(skip: u64, top: u64) -> Context {
    let query = Query::parse(&format!("api-version=2021-05&$skip={skip}&$top={top}")).unwrap();
    Context { host: Host::new(false, "localhost"), query, now: Timestamp::from_millis(1) }
}

/// The questions of a page of `top` behind `skip` when there are `count`, and the page.
fn page(count: u64, skip: u64, top: u64) -> (Vec<u64>, String) {
    let mut page = PageBuilder::of(Collection::Kind(EntityKind::Queue));
    let mut asked = Vec::new();
    loop {
        let context = context(skip, top);
        let EntityQuery::Kind { start, top, .. } = page.entity_query(&context.query) else {
            panic!("{page:?}")
        };
        asked.push(top);
        let first = match start {
            PageStart::Skip(skip) => skip,
            PageStart::Behind(name) => name.trim_start_matches('q').parse::<u64>().unwrap() + 1,
        };
        let found: Vec<EntityReport> =
            (first..count).take(usize::try_from(top).unwrap()).map(report).collect();
        match page.step(&context, &found) {
            PageProgress::Complete(answer) => return (asked, answer.body.concat()),
            PageProgress::Incomplete(next) => page = next,
        }
    }
}

#[test]
fn a_page_is_asked_for_in_slices_and_knows_whether_more_follow() {
    let slice = SLICE;
    let whole = [vec![slice; 9], vec![slice + 1]].concat();
    let cases: [(u64, u64, u64, &[u64], bool); 10] = [
        (0, 0, 100, &[slice], false),
        (9, 0, 100, &[slice], false),
        (slice, 0, 100, &[slice, slice], false),
        (100, 0, 100, &whole, false),
        (101, 0, 100, &whole, true),
        (100, 50, 100, &[slice; 6], false),
        (5, 0, 1, &[2], true),
        (1, 0, 1, &[2], false),
        (100, 0, slice + 1, &[slice, 2], true),
        (5, 9, 100, &[slice], false),
    ];
    for case @ (count, skip, top, questions, has_more) in cases {
        let (asked, text) = page(count, skip, top);
        assert_eq!(asked, questions, "{case:?}");
        let shown = count.saturating_sub(skip).min(top);
        assert_eq!(text.matches("<entry>").count() as u64, shown, "{case:?}");
        assert_eq!(text.contains("rel=\"next\""), has_more, "{case:?}");
        if has_more {
            let next = format!("$skip={}&amp;$top={top}", skip + shown);
            assert!(text.contains(&next), "{case:?}: {text}");
        }
        let whole = text.starts_with("<feed ") && text.ends_with("</feed>");
        assert!(whole && text.matches("</feed>").count() == 1, "{case:?}");
    }
}

#[test]
fn what_comes_or_goes_between_two_slices_moves_none_of_the_others() {
    let context = context(0, 100);
    let first: Vec<EntityReport> = (0..SLICE).map(report).collect();
    let page = PageBuilder::of(Collection::Kind(EntityKind::Queue));
    let PageProgress::Incomplete(page) = page.step(&context, &first) else { panic!("more follow") };
    let last = first.last().unwrap().name.clone();
    let expected = EntityQuery::Kind {
        kind: EntityKind::Queue,
        names: NameScope::ServiceBus,
        start: PageStart::Behind(last),
        top: SLICE,
    };
    assert_eq!(page.entity_query(&context.query), expected, "by name, whatever its place is by then");
}
