//! Opening of a connection: log-in and open, each in the namespace that the shell says it means.
//!
//! Invariant: the rights of a client are those that the authority of its open's namespace gives, and nothing before it is
//! placed reaches the core.

use std::sync::Arc;

use amqp_codec::{performative::Open, types::Symbol};
use amqp_engine::OpenReply;
use bytes::Bytes;

use super::{
    CoreRegistration, handshake,
    placement::{AwaitedPlacement, GatewayNamespace, Placement, PlacementRequests},
};
use crate::{condition::Refusal, cx::Cx, otel_spans::MessageSpans};

/// One step of a connection's opening.
pub(crate) struct Opening<'a> {
    cx: &'a mut Cx,
    registration: &'a mut CoreRegistration,
    requests: &'a mut PlacementRequests,
}

impl<'a> Opening<'a> {
    pub(crate) const fn new(
        cx: &'a mut Cx,
        registration: &'a mut CoreRegistration,
        requests: &'a mut PlacementRequests,
    ) -> Self {
        Self { cx, registration, requests }
    }

    /// The client chose a SASL mechanism. It is judged once its namespace is known.
    pub(crate) fn on_sasl_init(
        &mut self,
        mechanism: Symbol,
        response: Option<&Bytes>,
        hostname: Option<String>,
    ) {
        self.cx.client.on_sasl_init(mechanism, response.map(|bytes| &**bytes));
        self.requests.ask_login(hostname);
    }

    /// The client answers the challenge for its missing initial response.
    pub(crate) fn on_sasl_response(&mut self, response: &Bytes) {
        let Cx { client, engine, record, now, work, .. } = &mut *self.cx;
        client.on_sasl_response(response, engine, record, work, *now);
    }

    /// A deadline has come: a log-in may wait for the keys of its token's provider, or be over with its token.
    pub(crate) fn on_deadline(&mut self) {
        let Cx { client, engine, record, now, work, .. } = &mut *self.cx;
        if client.login_deadline(*now, false).is_some() {
            client.look_at_login(engine, record, work, *now);
        }
        // The end of the connection has an error only once it is open.
        if let Some(expired_at) = client.login_end().filter(|end| now.unix_seconds() >= *end)
            && record.has_opened()
            && !engine.is_closing()
        {
            self.cx.close(&Refusal::LogInExpired { expired_at });
        }
    }

    /// The client's open has come.
    pub(crate) fn on_opened(&mut self, open: &Open) {
        self.cx.client.on_opened(open);
        match self.registration.over_limit() {
            Some(limit) => {
                self.cx.record.set_opened();
                self.cx.engine.accept_open(OpenReply::default());
                self.cx.close(&Refusal::TooManyConnections { limit });
            }
            None => self.requests.ask_open(open),
        }
    }

    /// The shell answers. An answer that nothing waits for any more, because the connection has ended, does nothing.
    pub(crate) fn on_placement(&mut self, placement: Placement) {
        let awaited = self.requests.take_awaited();
        if self.cx.engine.is_closing() {
            return;
        }
        match awaited {
            AwaitedPlacement::None => {}
            AwaitedPlacement::Login => self.on_login_placed(placement),
            AwaitedPlacement::Open => self.on_open_placed(placement),
        }
    }

    fn on_login_placed(&mut self, placement: Placement) {
        let Cx { client, engine, record, now, work, .. } = &mut *self.cx;
        match placement {
            Placement::To(namespace) => {
                record.set_namespace(Some(namespace.name));
                client.set_authority(namespace.authority);
            }
            Placement::Uncertain(namespace) => {
                client.set_authority(namespace.authority);
                client.set_tentative();
            }
            Placement::Refused(_) => client.set_tentative(),
        }
        client.judge(engine, record, work, *now);
    }

    fn on_open_placed(&mut self, placement: Placement) {
        self.cx.record.set_opened();
        match placement {
            Placement::To(namespace) | Placement::Uncertain(namespace) => self.enter(namespace),
            Placement::Refused(refusal) => {
                self.cx.record.set_namespace(refusal.namespace().cloned());
                self.cx.close(&Refusal::Placement(refusal));
            }
        }
    }

    /// The connection is one of this namespace from now on, if the client may log in there.
    fn enter(&mut self, namespace: GatewayNamespace) {
        let Cx { client, record, now, work, .. } = &mut *self.cx;
        record.set_namespace(Some(Arc::clone(&namespace.name)));
        let entered = client.enter(&namespace, record, work, *now);
        self.configure(namespace);
        if let Err(refusal) = entered {
            return self.cx.close(&refusal);
        }
        self.registration.connect(self.cx);
        self.cx.engine.accept_open(OpenReply::default());
    }

    /// Limits and names of the namespace replace those with which the connection began.
    fn configure(&mut self, namespace: GatewayNamespace) {
        if Arc::ptr_eq(&self.cx.config, &namespace.config) {
            return;
        }
        let note = self.cx.tracking.reference(&namespace.config.server_name);
        let (_, peer) = self.cx.client.judges();
        let engine_config = handshake::engine_config(&namespace.config, &namespace.authority, peer, note);
        self.cx.engine.set_config(engine_config);
        self.registration.set_window(namespace.config.deliver_window_bytes);
        self.cx.spans = MessageSpans::new(namespace.config.traces);
        self.cx.config = namespace.config;
    }
}
