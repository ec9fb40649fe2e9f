//! `ferrybus config apply`.
//!
//! Invariant: a plan that cannot be carried out wholly changes nothing; what is changed was shown before.

use broker_core::EntityKind;
use broker_server::EntityPlan;
use serde_json::json;

use super::{
    Target,
    management::{Management, Place},
};
use crate::{
    arguments::ApplyArguments,
    emulator,
    failure::Failure,
    output,
    settings::{Entities, Settings, targets_first},
};

mod difference;
mod plan;

use difference::Found;
use plan::{Plan, Step, Verdict};

/// Compares, shows, and changes.
pub(crate) async fn apply(target: Target, arguments: &ApplyArguments) -> Result<(), Failure> {
    // Exit code 2 means differences here.
    let wanted = read(arguments).map_err(Failure::into_refusal)?;
    let mut management = target.management();
    let plan = make(&mut management, wanted, arguments.prune).await?;
    plan.print(arguments.connect.json)?;
    if plan.is_done() {
        return Ok(());
    }
    if arguments.dry_run {
        return Err(Failure::differences());
    }
    if plan.has(Verdict::Refused) {
        return Err(Failure::new("the plan cannot be carried out, nothing was changed").hint(
            "what is fixed at creation needs another entity, or the old one deleted with its messages",
        ));
    }
    let mut done = 0;
    for step in plan.steps() {
        if let Err(failure) = carry_out(&mut management, step).await {
            output::note(format_args!("{done} changes were made before"));
            return Err(failure);
        }
        done += usize::from(step.verdict != Verdict::Unchanged);
    }
    if arguments.connect.json {
        return output::line(json!({ "applied": done }));
    }
    output::line(format_args!("applied {done} changes"))
}

/// The entities of the file, each behind those that it needs.
fn read(arguments: &ApplyArguments) -> Result<Vec<EntityPlan>, Failure> {
    let path = &arguments.file;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let Entities { queues, topics, notices } = if is_json {
        let emulator = emulator::load(path)?;
        Entities { queues: emulator.queues, topics: emulator.topics, notices: emulator.notices }
    } else {
        Settings::load(path)?.entities()?
    };
    for notice in notices {
        output::note(format_args!("note: {notice}"));
    }
    let queues = queues.into_iter().map(|(name, settings)| EntityPlan::queue(name, settings));
    Ok(targets_first(queues.chain(topics).collect()))
}

/// Asks the broker what there is, and compares.
async fn make(
    management: &mut Management<'_>,
    wanted: Vec<EntityPlan>,
    prune: bool,
) -> Result<Plan, Failure> {
    let mut found = Found::default();
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        let like = Place::new(kind, "");
        for entity in management.list(&like).await? {
            found.add(Place::new(kind, &entity.name), entity);
        }
    }
    let topics: Vec<String> = found.topics().map(str::to_owned).collect();
    for topic in topics {
        for entity in management.list(&Place::subscription(&topic, "")).await? {
            found.add(Place::subscription(&topic, &entity.name), entity);
        }
    }
    for plan in wanted.iter().filter(|plan| plan.kind == EntityKind::Subscription) {
        let place = Place::new(plan.kind, &plan.name);
        if found.has(&place) {
            let rules = management.rules(&place).await?;
            found.add_rules(&place, rules);
        }
    }
    Ok(Plan::new(&wanted, &found, prune))
}

async fn carry_out(management: &mut Management<'_>, step: &Step) -> Result<(), Failure> {
    let place = &step.place;
    match step.verdict {
        Verdict::Unchanged | Verdict::Refused => Ok(()),
        Verdict::Delete => match &step.rule {
            Some(rule) => management.delete_rule(place, &rule.name).await,
            None => management.delete(place).await,
        },
        Verdict::Create | Verdict::Update => {
            let exists = step.verdict == Verdict::Update;
            match (&step.rule, &step.entity) {
                (Some(rule), _) => management.put_rule(place, rule, exists).await,
                (None, Some(entity)) => management.put(place, entity, exists).await.map(drop),
                (None, None) => Ok(()),
            }
        }
    }
}
