//! Notification of one connection about injected faults.
//!
//! Invariant: faults that were injected before a check are covered by it, and later ones wake the task again.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::watch;

/// Waits for the next order.
pub(crate) struct FaultSubscription {
    news: watch::Receiver<()>,
    next: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl FaultSubscription {
    /// From now on.
    pub(crate) fn new(mut news: watch::Receiver<()>) -> Self {
        news.mark_unchanged();
        let mut waiting = news.clone();
        let next = Box::pin(async move {
            // An error means that the server has ended, so no more faults are injected.
            if waiting.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        Self { news, next }
    }

    /// True once for all that was ordered since; else the task is woken by the next order.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if self.next.as_mut().poll(cx).is_pending() {
            return false;
        }
        *self = Self::new(self.news.clone());
        if matches!(self.next.as_mut().poll(cx), Poll::Ready(())) {
            // Something was ordered in between: look again.
            cx.waker().wake_by_ref();
        }
        true
    }
}
