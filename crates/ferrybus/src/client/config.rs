//! `ferrybus config apply`.
//!
//! Invariant: a plan that cannot be carried out wholly changes nothing; what is changed was shown before, and is still as
//! it was shown.

use std::path::Path;

use broker_admin::client::Described;
use broker_core::{DEFAULT_NAMESPACE, EntityKind};
use broker_server::EntityPlan;
use serde_json::json;

use super::{
    BrokerEndpoint,
    http::changed_meanwhile,
    management::{EntityRef, Management, State},
};
use crate::{
    arguments::ApplyArguments,
    difference::Named,
    emulator,
    failure::Failure,
    output,
    settings::{Entities, Settings},
};

mod broker_state;
pub(crate) mod limits;
mod plan;

use broker_state::BrokerState;
use limits::Limits;
use plan::{Plan, PlanStep, PlannedAction};

/// Compares, shows, and changes.
pub(crate) async fn apply(target: BrokerEndpoint, arguments: &ApplyArguments) -> Result<(), Failure> {
    // Exit code 2 means differences here.
    let wanted = read(arguments).map_err(Failure::into_refusal)?;
    let mut management = target.management();
    let named = if is_emulators(&arguments.file) { emulator::named } else { |_| Named::All };
    let plan = make(&mut management, wanted, arguments.prune, named).await?;
    plan.print(arguments.connect.json)?;
    if plan.is_done() {
        return Ok(());
    }
    if arguments.dry_run {
        return Err(Failure::differences());
    }
    if plan.has(PlannedAction::Refused) {
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
        done += usize::from(step.planned != PlannedAction::Unchanged);
    }
    if arguments.connect.json {
        return output::line(json!({ "applied": done }));
    }
    output::line(format_args!("applied {done} changes"))
}

/// The entities of the file, each behind those that it needs.
fn read(arguments: &ApplyArguments) -> Result<Vec<EntityPlan>, Failure> {
    let path = &arguments.file;
    let settings = if is_emulators(path) { Settings::of_emulator(path) } else { Settings::load(path)? };
    let Entities { namespaces, notices } = settings.entities()?;
    for notice in notices {
        output::note(format_args!("note: {notice}"));
    }
    let name = arguments.connect.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let found = namespaces.iter().find(|namespace| namespace.name.eq_ignore_ascii_case(name));
    let Some(wanted) = found else {
        return Err(Failure::misuse(format_args!("`{}` has no namespace `{name}`", path.display())));
    };
    let others = namespaces.iter().filter(|other| other.name != wanted.name && !other.plans.is_empty());
    for other in others {
        output::note(format_args!(
            "note: the entities of namespace `{0}` are left out: `--namespace {0}` applies them",
            other.name
        ));
    }
    Ok(wanted.plans.clone())
}

/// Whether it is the `Config.json` of the Azure emulator.
fn is_emulators(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// Asks the broker what there is, and compares.
async fn make(
    management: &mut Management<'_>,
    wanted: Vec<EntityPlan>,
    prune: bool,
    named: fn(EntityKind) -> Named,
) -> Result<Plan, Failure> {
    let mut found = BrokerState::of(Limits::of(management).await?);
    for kind in [EntityKind::Queue, EntityKind::Topic] {
        let like = EntityRef::new(kind, "");
        for entity in management.list(&like).await? {
            found.add(EntityRef::new(kind, &entity.name), entity);
        }
    }
    let topics: Vec<String> = found.topics().map(str::to_owned).collect();
    for topic in topics {
        for entity in management.list(&EntityRef::subscription(&topic, "")).await? {
            found.add(EntityRef::subscription(&topic, &entity.name), entity);
        }
    }
    for plan in wanted.iter().filter(|plan| plan.kind == EntityKind::Subscription) {
        let entity_ref = EntityRef::new(plan.kind, &plan.name);
        if found.has(&entity_ref) {
            let rules = management.rules(&entity_ref).await?;
            found.add_rules(&entity_ref, rules);
        }
    }
    Ok(Plan::new(&wanted, &found, prune, named))
}

async fn carry_out(management: &mut Management<'_>, step: &PlanStep) -> Result<(), Failure> {
    let entity_ref = &step.entity_ref;
    match step.planned {
        PlannedAction::Unchanged | PlannedAction::Refused => Ok(()),
        PlannedAction::Delete => match (&step.rule, &step.entity) {
            (Some(rule), _) => {
                let state = rule_state(management, step).await?;
                management.delete_rule(entity_ref, &rule.name, &state).await
            }
            (None, Some(entity)) => {
                let state = entity_state(management, step, entity).await?;
                management.delete(entity_ref, &state).await
            }
            (None, None) => Ok(()),
        },
        PlannedAction::Create | PlannedAction::Update => match (&step.rule, &step.entity) {
            (Some(rule), _) => {
                let state = rule_state(management, step).await?;
                management.put_rule(entity_ref, rule, &state).await
            }
            (None, Some(entity)) => {
                let state = entity_state(management, step, entity).await?;
                management.put(entity_ref, entity, &state).await.map(drop)
            }
            (None, None) => Ok(()),
        },
    }
}

/// The state for which the step was planned, if that is still so.
async fn entity_state(
    management: &mut Management<'_>,
    step: &PlanStep,
    planned: &Described,
) -> Result<State, Failure> {
    if step.planned == PlannedAction::Create {
        return Ok(State::New);
    }
    let (found, state) = management.get_state(&step.entity_ref).await?;
    let is_same = ["CreatedAt", "UpdatedAt"].iter().all(|time| found.text(time) == planned.text(time));
    if is_same { Ok(state) } else { Err(changed_meanwhile(&what(step, &step.entity_ref.label()))) }
}

async fn rule_state(management: &mut Management<'_>, step: &PlanStep) -> Result<State, Failure> {
    let Some(planned) = &step.rule_before else { return Ok(State::New) };
    match management.find_rule(&step.entity_ref, &planned.name).await? {
        Some((found, state)) if found == *planned => Ok(state),
        _ => Err(changed_meanwhile(&what(step, &format!("rule `{}`", planned.name)))),
    }
}

/// Description of a step that failed.
fn what(step: &PlanStep, name: &str) -> String {
    format!("cannot {} {name}", step.planned.word())
}
