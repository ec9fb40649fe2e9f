//! The refusal of a client that lacks the right to manage, as the service words it where `missing_right` is `unauthorized`.
//!
//! Invariant: the text says which operation was refused, and nothing of the client's own but the path.

use broker_admin::Route;
use hyper::{Method, ext::ReasonPhrase};

/// Words of a refusal.
#[derive(Debug)]
pub(super) struct Lacking {
    /// For the body, without a stop behind.
    pub(super) detail: String,
    /// For the status line: clients of Go print it, and its tests look for it.
    pub(super) phrase: Option<ReasonPhrase>,
}

impl Lacking {
    /// Of a request with this method for this route.
    pub(super) fn of(method: &Method, route: &Route) -> Self {
        let action = match *method {
            Method::GET => 0,
            Method::PUT => 1,
            _ => 2,
        };
        // Operations of topics below which there are subscriptions, and of those below which there are rules.
        let operations: Option<[&'static str; 3]> = match route {
            Route::Namespace | Route::List(_) | Route::Entity(_) => None,
            Route::Subscriptions(_) => {
                Some(["EnumerateSubscriptions", "CreateOrUpdateSubscription", "DeleteSubscription"])
            }
            Route::Subscription(_) => {
                Some(["GetSubscription", "CreateOrUpdateSubscription", "DeleteSubscription"])
            }
            Route::Rules(_) => Some(["EnumerateRules", "CreateOrUpdateRule", "DeleteRule"]),
            Route::Rule(..) => Some(["GetRule", "CreateOrUpdateRule", "DeleteRule"]),
        };
        let Some(operation) = operations.and_then(|all| all.get(action).copied()) else {
            let detail = match action {
                0 => "Manage,EntityRead claims required for this operation",
                1 => "Authorization failed for specified action: Manage,EntityWrite",
                _ => "Authorization failed for specified action: Manage,EntityDelete",
            };
            return Self { detail: detail.to_owned(), phrase: None };
        };
        let detail = format!("SubCode=40100: Unauthorized : Unauthorized access for '{operation}' operation");
        let phrase = ReasonPhrase::try_from(detail.as_bytes()).ok();
        Self { detail, phrase }
    }
}
