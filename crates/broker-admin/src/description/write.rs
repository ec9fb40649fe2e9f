//! Descriptions as answers show them.
//!
//! Invariant: every element is written on which the strictest parser of an SDK insists.

use std::time::Duration;

use broker_core::{
    EntityKind, EntityProperty, EntityReport, LockLifetime, PropertyRow, SettingValue, Timestamp,
};

use super::{Element, authorization, element_name, elements, shown_megabytes, shown_message_kilobytes, word};
use crate::{Query, duration, time, xml};

/// Entity to write, and the parts of it to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) report: &'a EntityReport,
    pub(crate) query: &'a Query,
    /// With counts and the time of the last access: for `GET`, not for `PUT`.
    pub(crate) with_counts: bool,
}

/// Appends the description of an entity.
pub(crate) fn write(out: &mut String, shown: Shown<'_>) {
    let name = element_name(shown.report.kind);
    let namespace = xml::SERVICE_BUS;
    xml::put(out, format_args!("<{name} xmlns=\"{namespace}\" xmlns:i=\"{}\">", xml::INSTANCE));
    let mut writer = Writer { out, shown };
    for element in elements(shown.report.kind) {
        writer.write(*element);
    }
    xml::put(out, format_args!("</{name}>"));
}

struct Writer<'a, 'o> {
    out: &'o mut String,
    shown: Shown<'a>,
}

impl Writer<'_, '_> {
    fn write(&mut self, element: Element) {
        let report = self.shown.report;
        match element {
            Element::Property(property) => self.property(property.row()),
            Element::DefaultRule => {}
            Element::SizeInBytes => self.number("SizeInBytes", report.bytes),
            Element::MessageCount => self.number("MessageCount", total(report)),
            Element::AuthorizationRules => authorization::write(self.out, &report.settings.authorization),
            Element::Times => self.times(),
            Element::UnknownAccess if self.shown.with_counts => {}
            // So does the service, here without a `Z`.
            Element::UnknownAccess => self.element("AccessedAt", time::NEVER.trim_end_matches('Z')),
            Element::Counts(prefix) => self.counts(prefix),
            Element::SubscriptionCounts => self.subscription_counts(),
            Element::Availability => self.element("EntityAvailabilityStatus", "Available"),
        }
    }

    fn property(&mut self, row: &PropertyRow) {
        let name = row.element;
        let settings = &*self.shown.report.settings;
        match row.get(settings) {
            SettingValue::Time(time) => self.duration(name, time),
            SettingValue::Flag(on) => self.element(name, word(on)),
            SettingValue::Count(count) => self.number(name, u64::from(count)),
            SettingValue::Bytes(_) if row.property == EntityProperty::MaxSizeBytes => {
                self.number(name, shown_megabytes(settings));
            }
            SettingValue::Bytes(_) if self.shown.query.is_modern() => {
                self.number(name, shown_message_kilobytes(self.shown.report));
            }
            SettingValue::Bytes(_) => {}
            SettingValue::Status(status) => self.element(name, status.word()),
            // An element of this broker, which strict parsers of SDKs do not expect.
            SettingValue::LockLifetime(lifetime) if lifetime == LockLifetime::default() => {}
            SettingValue::LockLifetime(lifetime) => self.element(name, lifetime.word()),
            SettingValue::Text(text) => self.optional(name, text.as_deref()),
        }
    }

    fn subscription_counts(&mut self) {
        if self.shown.with_counts {
            let report = self.shown.report;
            self.number("SubscriptionCount", report.subscriptions);
            if self.shown.query.is_newest() {
                self.number("SqlFilterCount", report.sql_filters);
                self.number("CorrelationFilterCount", report.correlation_filters);
            }
        }
    }

    fn element(&mut self, name: &str, text: &str) {
        xml::element(self.out, name, text);
    }

    fn number(&mut self, name: &str, number: u64) {
        xml::element_with(self.out, name, |out| xml::number(out, number));
    }

    fn duration(&mut self, name: &str, duration: Option<Duration>) {
        xml::element_with(self.out, name, |out| duration::put(out, duration));
    }

    fn time(&mut self, name: &str, at: Timestamp) {
        xml::element_with(self.out, name, |out| time::put(out, at));
    }

    /// As the client wrote it, where it did.
    fn optional(&mut self, name: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        let settings = &*self.shown.report.settings;
        let text = settings.other.get(name).map_or(text, |as_written| as_written);
        xml::element(self.out, name, text);
    }

    fn times(&mut self) {
        let report = self.shown.report;
        self.time("CreatedAt", report.created_at);
        self.time("UpdatedAt", report.updated_at);
        if self.shown.with_counts {
            // The service shows a subscription that nobody has received from with the time when it was made, and other
            // entities with none.
            let accessed_at = match report.kind {
                EntityKind::Subscription => report.accessed_at.max(report.created_at),
                EntityKind::Queue | EntityKind::Topic => report.accessed_at,
            };
            self.element("AccessedAt", &time::format_or_never(accessed_at));
        }
    }

    fn counts(&mut self, prefix: &str) {
        if !self.shown.with_counts {
            return;
        }
        let report = self.shown.report;
        let namespace = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
        xml::put(self.out, format_args!("<CountDetails xmlns:{prefix}=\"{namespace}\">"));
        // Messages of an entity that forwards cannot be received from it.
        let (active, transfer) = match report.settings.forward_to {
            None => (report.active_and_deferred, 0),
            Some(_) => (
                report.activity.deferred,
                report.active_and_deferred.saturating_sub(report.activity.deferred),
            ),
        };
        let counts = [
            ("ActiveMessageCount", active),
            ("DeadLetterMessageCount", report.dead_letter),
            ("ScheduledMessageCount", report.scheduled),
            ("TransferMessageCount", transfer),
            ("TransferDeadLetterMessageCount", report.transfer_dead_letter),
        ];
        for (name, count) in counts {
            xml::put(self.out, format_args!("<{prefix}:{name}>{count}</{prefix}:{name}>"));
        }
        self.out.push_str("</CountDetails>");
    }
}

fn total(report: &EntityReport) -> u64 {
    report.active_and_deferred + report.scheduled + report.dead_letter + report.transfer_dead_letter
}
