//! Descriptions as answers show them.
//!
//! Invariant: every element is written on which the strictest parser of an SDK insists.

use std::time::Duration;

use broker_core::{EntityKind, EntityReport, EntitySettings, LockLifetime, Timestamp};

use super::{
    HOLD, STATUS, authorization, element_name, flag, kept, shown_megabytes, shown_message_kilobytes, word,
};
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
    match shown.report.kind {
        EntityKind::Queue => writer.queue(),
        EntityKind::Topic => writer.topic(),
        EntityKind::Subscription => writer.subscription(),
    }
    xml::put(out, format_args!("</{name}>"));
}

struct Writer<'a, 'o> {
    out: &'o mut String,
    shown: Shown<'a>,
}

impl Writer<'_, '_> {
    fn queue(&mut self) {
        let report = self.shown.report;
        let settings = &*report.settings;
        self.lock(settings);
        self.size(settings);
        self.flag("RequiresDuplicateDetection", settings.requires_duplicate_detection);
        self.flag("RequiresSession", settings.requires_session);
        self.time_to_live(settings);
        self.flag("DeadLetteringOnMessageExpiration", settings.dead_letter_on_expiration);
        self.window(settings);
        self.number("MaxDeliveryCount", u64::from(settings.max_delivery_count));
        self.kept("EnableBatchedOperations");
        self.number("SizeInBytes", report.bytes);
        self.number("MessageCount", total(report));
        self.kept("IsAnonymousAccessible");
        self.authorization();
        self.status();
        self.optional("ForwardTo", settings.forward_to.as_deref());
        self.optional("UserMetadata", settings.user_metadata.as_deref());
        self.times();
        self.kept("SupportOrdering");
        self.counts("d2p1");
        self.idle(settings);
        self.flag("EnablePartitioning", settings.enable_partitioning);
        self.element("EntityAvailabilityStatus", "Available");
        self.optional("ForwardDeadLetteredMessagesTo", settings.forward_dead_lettered_to.as_deref());
        self.kept("EnableExpress");
        self.message_size();
    }

    fn topic(&mut self) {
        let report = self.shown.report;
        let settings = &*report.settings;
        self.time_to_live(settings);
        self.size(settings);
        self.flag("RequiresDuplicateDetection", settings.requires_duplicate_detection);
        self.window(settings);
        self.kept("EnableBatchedOperations");
        self.number("SizeInBytes", report.bytes);
        self.kept("FilteringMessagesBeforePublishing");
        self.kept("IsAnonymousAccessible");
        self.authorization();
        self.status();
        self.optional("UserMetadata", settings.user_metadata.as_deref());
        self.times();
        self.kept("SupportOrdering");
        self.counts("d2p1");
        if self.shown.with_counts {
            self.number("SubscriptionCount", report.subscriptions);
            if self.shown.query.is_newest() {
                self.number("SqlFilterCount", report.sql_filters);
                self.number("CorrelationFilterCount", report.correlation_filters);
            }
        }
        self.idle(settings);
        self.flag("EnablePartitioning", settings.enable_partitioning);
        self.element("EntityAvailabilityStatus", "Available");
        self.kept("EnableSubscriptionPartitioning");
        self.kept("EnableExpress");
        self.message_size();
    }

    fn subscription(&mut self) {
        let report = self.shown.report;
        let settings = &*report.settings;
        self.lock(settings);
        self.flag("RequiresSession", settings.requires_session);
        self.time_to_live(settings);
        self.flag("DeadLetteringOnMessageExpiration", settings.dead_letter_on_expiration);
        self.flag("DeadLetteringOnFilterEvaluationExceptions", settings.dead_letter_on_filter_error);
        self.number("MessageCount", total(report));
        self.number("MaxDeliveryCount", u64::from(settings.max_delivery_count));
        self.kept("EnableBatchedOperations");
        self.status();
        self.optional("ForwardTo", settings.forward_to.as_deref());
        self.times();
        if !self.shown.with_counts {
            // So does the service, here without a `Z`.
            self.element("AccessedAt", time::NEVER.trim_end_matches('Z'));
        }
        self.optional("UserMetadata", settings.user_metadata.as_deref());
        self.counts("d3p1");
        self.optional("ForwardDeadLetteredMessagesTo", settings.forward_dead_lettered_to.as_deref());
        self.idle(settings);
        self.element("EntityAvailabilityStatus", "Available");
        self.kept("IsClientAffine");
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

    fn flag(&mut self, name: &str, on: bool) {
        self.element(name, word(on));
    }

    /// As the client wrote it, where it did.
    fn optional(&mut self, name: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        let settings = &*self.shown.report.settings;
        let text = settings.other.get(name).map_or(text, |as_written| as_written);
        xml::element(self.out, name, text);
    }

    fn kept(&mut self, name: &str) {
        let report = self.shown.report;
        let default = kept(report.kind).iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        let set = report.settings.other.get(name).and_then(|text| flag(text));
        xml::element(self.out, name, set.map_or(default, word));
    }

    fn lock(&mut self, settings: &EntitySettings) {
        self.duration("LockDuration", Some(settings.lock_duration));
        if settings.hold == LockLifetime::Lock {
            self.element(HOLD, "Lock");
        }
    }

    fn time_to_live(&mut self, settings: &EntitySettings) {
        self.duration("DefaultMessageTimeToLive", settings.default_time_to_live);
    }

    fn window(&mut self, settings: &EntitySettings) {
        let window = settings.duplicate_detection_window;
        self.duration("DuplicateDetectionHistoryTimeWindow", Some(window));
    }

    fn idle(&mut self, settings: &EntitySettings) {
        self.duration("AutoDeleteOnIdle", settings.auto_delete_on_idle);
    }

    fn size(&mut self, settings: &EntitySettings) {
        self.number("MaxSizeInMegabytes", shown_megabytes(settings));
    }

    fn message_size(&mut self) {
        if self.shown.query.is_modern() {
            let kilobytes = shown_message_kilobytes(self.shown.report);
            self.number("MaxMessageSizeInKilobytes", kilobytes);
        }
    }

    fn status(&mut self) {
        let status = self.shown.report.settings.status;
        let word = STATUS.iter().find(|(_, known)| *known == status).map_or("Active", |(word, _)| word);
        self.element("Status", word);
    }

    fn authorization(&mut self) {
        authorization::write(self.out, &self.shown.report.settings.authorization);
    }

    fn times(&mut self) {
        let report = self.shown.report;
        self.time("CreatedAt", report.created_at);
        self.time("UpdatedAt", report.updated_at);
        if self.shown.with_counts {
            self.element("AccessedAt", &time::format_or_never(report.accessed_at));
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
