//! Ends of connections: the network cuts them, the broker closes them, a shard panics, or the process is killed.
//!
//! Invariant: the model of a namespace hears of each connection that is gone, and its client connects again.

use amqp_gateway::CloseReason;
use broker_core::Batch;
use bytes::BytesMut;

use super::{Connection, World, submit, tenants::TenantLife};

/// Ends connections of a world.
pub(super) struct Departures<'a, 'w> {
    world: &'a mut World<'w>,
}

impl<'a, 'w> Departures<'a, 'w> {
    pub(super) fn of(world: &'a mut World<'w>) -> Self {
        Self { world }
    }
}

impl Departures<'_, '_> {
    /// Breaks a connection: bytes in flight are lost, and the client connects again under a new id.
    pub(super) fn cut(&mut self, connection: usize) {
        if connection >= self.world.connections.len() {
            return;
        }
        let mut connection = self.world.connections.swap_remove(connection);
        let commands = connection.gateway.disconnected();
        if let Some(residence) = connection.namespace {
            self.world.process.submit(residence, Batch { client: connection.id, commands });
        }
        self.lost(&connection);
    }

    /// Its client connects again.
    fn lost(&mut self, connection: &Connection) {
        let number = connection.tenant;
        connection.client.lost(&mut self.world.tenant(number).model);
        TenantLife::of(self.world).reconnect(number, connection.client.purpose());
    }

    /// Kills the process, and in some cases the machine.
    pub(super) fn crash(&mut self) {
        self.world.report.crashes += 1;
        self.world.process.crash(&mut self.world.rng);
        for tenant in &mut self.world.tenants {
            tenant.restarted(self.world.now);
        }
        for connection in std::mem::take(&mut self.world.connections) {
            self.lost(&connection);
        }
    }

    /// The node of a shard panics, and the shard alone is started again on what its journal kept.
    pub(super) fn panic(&mut self) -> Result<(), String> {
        let shard = self.world.process.any(&mut self.world.rng);
        self.world.report.count("shards that panicked");
        let tenants = self.world.tenants.iter();
        let homes: Vec<bool> = tenants.map(|tenant| tenant.shard == shard).collect();
        // Those that have not said yet which namespace they mean come again too.
        let leaves = |connection: &Connection| homes.get(connection.tenant) == Some(&true);
        // Nothing that they still send comes to the node.
        self.leave(leaves, CloseReason::ShardFailed)?;
        for tenant in self.world.tenants.iter_mut().filter(|tenant| tenant.shard == shard) {
            tenant.restarted(self.world.now);
        }
        let setups = TenantLife::of(self.world).setups();
        let World { process, plan, rng, .. } = self.world;
        process.restart_shard(shard, plan, rng, &setups)?;
        TenantLife::of(self.world).after_restart(shard)
    }

    /// The broker closes these connections, and says why. Their clients come back as soon as they may.
    pub(super) fn leave(
        &mut self,
        leaves: impl Fn(&Connection) -> bool,
        reason: CloseReason,
    ) -> Result<(), String> {
        let all = std::mem::take(&mut self.world.connections);
        let (leaving, staying): (Vec<_>, Vec<_>) = all.into_iter().partition(leaves);
        self.world.connections = staying;
        for mut connection in leaving {
            let now = self.world.now();
            connection.gateway.close(now, reason);
            self.read_rest(&mut connection)?;
            if connection.client.was_closed() {
                self.world.report.count(match reason {
                    CloseReason::NamespaceDeleted => "connections closed by a deletion",
                    CloseReason::NamespaceHeld => "connections closed by a hold",
                    _ => "connections closed by the panic of a shard",
                });
            }
            submit(&mut self.world.process, &mut connection);
            let commands = connection.gateway.disconnected();
            if let Some(residence) = connection.namespace {
                self.world.process.submit(residence, Batch { client: connection.id, commands });
            }
            if reason == CloseReason::NamespaceDeleted {
                // Its model goes with it.
                let purpose = connection.client.purpose();
                self.world.tenant(connection.tenant).waiting.push(purpose);
            } else {
                self.lost(&connection);
            }
        }
        Ok(())
    }

    /// The client reads all that its gateway has to say, up to the close.
    pub(super) fn read_rest(&mut self, connection: &mut Connection) -> Result<(), String> {
        let (now, number) = (self.world.now(), connection.tenant);
        connection.client.expect_close();
        loop {
            let mut out = BytesMut::new();
            connection.gateway.poll_output(now, &mut out, 4096);
            connection.gateway.output_written(out.len());
            if out.is_empty() && connection.to_client.is_empty() {
                return Ok(());
            }
            connection.to_client.extend_from_slice(&out);
            let bytes = connection.to_client.split().freeze();
            self.world.report.wire.add(&bytes);
            connection.client.read(&bytes, &mut self.world.cx(number))?;
        }
    }
}
