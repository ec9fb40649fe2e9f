//! Messages whose transfer names a transaction.
//!
//! Invariant: a message that the core has taken into a transaction is answered with that transaction and the outcome in
//! it; one that is refused is answered with a plain `rejected`, which every client understands, and its transaction can
//! only roll back.

use amqp_codec::performative::TxnId;
use amqp_engine::IncomingDelivery;
use broker_core::{Command, LinkId, NodeKind, Operation, PublishTarget, TransactionId};

use super::{incoming::Publisher, message_parse::ParseOptions};
use crate::{
    condition::Refusal,
    link::{LinkKind, asking, detach::Detacher},
    pending::{Pending, TrackedPublish},
    transaction::read_name,
};

impl Publisher<'_> {
    /// A message whose transfer names a transaction.
    pub(super) fn publish_transacted(
        &mut self,
        id: LinkId,
        delivery: &mut IncomingDelivery,
        options: ParseOptions,
        name: TxnId,
    ) {
        let (transaction, target, kind) = match self.join(id, delivery, &name) {
            Ok(joined) => joined,
            Err(refusal) => {
                self.ends.transactions.mark_rollback_only(&name, self.cx);
                if delivery.settled && refusal == Refusal::NoTransaction {
                    // Nothing else would tell its sender.
                    return Detacher::new(self.cx, self.ends).detach(id, &refusal);
                }
                return self.refuse(id, delivery, &refusal);
            }
        };
        let Some(messages) = self.read(id, delivery, options) else {
            return self.ends.transactions.mark_rollback_only(&name, self.cx);
        };
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Sender(sender) = &mut link.kind else { return };
        let session = link.session;
        let (settled, tag) = (delivery.settled, delivery.tag);
        let ticket = (!settled).then(|| {
            if let Some(name) = read_name(&name) {
                sender.on_enlisted(name);
            }
            let delivery = delivery.delivery_id.0;
            let transaction = Some(name);
            let tracked = TrackedPublish { link: id, session, delivery, tag, settled, transaction };
            self.ends.pending.add(Pending::Publish(tracked))
        });
        let operation = Box::new(Operation::Publish { target, messages, ticket });
        self.cx.commands.push(asking(kind, Command::Enlist { transaction, operation }));
    }

    /// The transaction that a message joins, and where it goes.
    fn join(
        &mut self,
        id: LinkId,
        delivery: &IncomingDelivery,
        name: &TxnId,
    ) -> Result<(TransactionId, PublishTarget, Option<NodeKind>), Refusal> {
        if !self.ends.transactions.knows(name) {
            return Err(Refusal::NoTransaction);
        }
        let link = self.ends.links.get(id).ok_or(Refusal::Unexpected)?;
        let LinkKind::Sender(sender) = &link.kind else { return Err(Refusal::Unexpected) };
        let (path, kind) = sender.destination(delivery, self.cx)?;
        sender.check_size(delivery)?;
        let entity = sender.via().map_or_else(|| path.entity.clone(), |via| via.entity.clone());
        let transaction = self.ends.transactions.join(name, link, &entity, self.cx)?;
        let target = sender.target(path, self.cx.config.auto_create);
        Ok((transaction, target, kind))
    }
}
