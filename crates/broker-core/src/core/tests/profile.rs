//! Tiers of the service (`docs/features/configuration.md`, "Tiers"; requirement EXP-8).

use std::time::Duration;

use super::{harness::*, transacting::*};
use crate::{
    Command, CoreConfig, EntityError, EntityKind, EntitySettings, Profile, ReceiveMode, TransactionError,
};

const DAY: u64 = 86_400_000;

fn with(profile: Profile) -> Broker {
    Broker::with(CoreConfig { token_key: [7; 16], profile, ..CoreConfig::default() })
}

fn create(
    broker: &mut Broker,
    name: &str,
    kind: EntityKind,
    settings: EntitySettings,
) -> Result<(), EntityError> {
    let (ticket, settings) = (broker.ticket(), Box::new(settings));
    broker.ask(Command::CreateEntity { name: name.into(), kind, settings, ticket })
}

#[test]
fn a_message_stays_for_ever_but_in_the_basic_tier_fourteen_days() {
    for (profile, stays) in [(Profile::STANDARD, true), (Profile::BASIC, false)] {
        let mut broker = with(profile);
        broker.create("q", EntitySettings::default());
        broker.publish(message("without"));
        broker.publish(message_for("longer", 400 * DAY));
        broker.restart();
        broker.wait(14 * DAY - 1);
        assert_eq!(broker.active(), 2);
        broker.wait(1);
        assert_eq!(broker.active(), if stays { 2 } else { 0 });
        broker.wait(386 * DAY);
        let left = broker.receive(main_path("q"), ReceiveMode::ReceiveAndDelete, 9);
        assert_eq!(texts(&left), if stays { vec!["without"] } else { vec![] });
    }
}

#[test]
fn properties_that_a_tier_lacks_are_refused_at_creation_and_at_updates() {
    let mut broker = with(Profile::BASIC);
    let long = || EntitySettings {
        default_time_to_live: Some(Duration::from_millis(15 * DAY)),
        ..EntitySettings::default()
    };
    let sessions = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let refused = |what| Err(EntityError::NotInProfile { what, profile: "Basic" });
    assert_eq!(create(&mut broker, "t", EntityKind::Topic, EntitySettings::default()), refused("topics"));
    assert_eq!(create(&mut broker, "s", EntityKind::Queue, sessions), refused("RequiresSession"));
    assert!(matches!(
        create(&mut broker, "q", EntityKind::Queue, long()),
        Err(EntityError::OutOfRange { .. })
    ));
    broker.create("q", EntitySettings::default());
    for (settings, good) in [(long(), false), (EntitySettings::default(), true)] {
        let (ticket, settings) = (broker.ticket(), Box::new(settings));
        let updated =
            broker.ask(Command::UpdateEntity { name: "q".into(), settings, expected: None, ticket });
        assert_eq!(updated.is_ok(), good, "{updated:?}");
        let found = broker.core.entity("q").unwrap().settings.default_time_to_live;
        assert_eq!(found, Some(Duration::from_millis(14 * DAY)));
    }
    let what = "open transactions per connection";
    assert_eq!(broker.declare_by(ME, TX), transaction(TransactionError::LimitReached { what, limit: 0 }));
}

#[test]
fn the_emulator_has_fifty_subscriptions_of_a_topic() {
    for (profile, most) in [(Profile::EMULATOR, 50), (Profile::STANDARD, 60)] {
        let mut broker = with(profile);
        broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
        let made = (0..60).take_while(|number| {
            let name = format!("t/Subscriptions/s{number}");
            create(&mut broker, &name, EntityKind::Subscription, EntitySettings::default()).is_ok()
        });
        assert_eq!(made.count(), most);
    }
}

#[test]
fn entities_created_under_another_profile_stay() {
    let mut broker = with(Profile::STANDARD);
    broker.create("q", EntitySettings { requires_duplicate_detection: true, ..EntitySettings::default() });
    broker.publish(message("m"));
    broker.core.state.messages.config.profile = Profile::BASIC;
    broker.restart();
    assert_eq!(broker.active(), 1);
    assert!(broker.core.entity("q").unwrap().settings.requires_duplicate_detection);
}
