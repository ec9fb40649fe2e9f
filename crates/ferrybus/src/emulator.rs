//! Reader of the `Config.json` of the Azure Service Bus emulator (Microsoft Learn, "Test locally by using the Service Bus
//! emulator").
//!
//! Invariant: what the file asks for is either done, refused, or named in a notice; nothing is dropped in silence.

use std::{fs, path::Path, sync::LazyLock};

use broker_core::{EntityKind, EntityProperty, EntitySettings, PropertyRow, PropertyType, SettingValue};
use broker_server::EntityPlan;
use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use crate::{
    entity_name::check_service_bus_name,
    failure::{Failure, unreadable},
    size_and_duration::Span,
    suggest::suggest,
};

mod named;
mod topics;
mod variables;

pub(crate) use named::named;
pub(crate) use variables::Variables;

/// Namespaces that the file declares, in its order.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    pub(crate) namespaces: Vec<EmulatorNamespace>,
    /// Notices about parts of the file outside of them.
    pub(crate) notices: Vec<String>,
}

/// One namespace of the file.
#[derive(Debug, Default)]
pub(crate) struct EmulatorNamespace {
    /// As the file has it, which the emulator does not need.
    pub(crate) name: Option<String>,
    pub(crate) queues: Vec<(String, EntitySettings)>,
    /// Its topics, each before its subscriptions.
    pub(crate) topics: Vec<EntityPlan>,
    /// Notices about parts of the file without effect.
    pub(crate) notices: Vec<String>,
}

/// Reads the file.
pub(crate) fn load(path: &Path) -> Result<Emulator, Failure> {
    let text =
        fs::read_to_string(path).map_err(|error| unreadable("emulator configuration", path, &error))?;
    parse(&text).map_err(|InvalidConfig(reason)| {
        Failure::misuse(format_args!("bad emulator configuration in `{}`: {reason}", path.display()))
    })
}

/// Reason why the file cannot be used.
#[derive(Debug, Eq, PartialEq)]
struct InvalidConfig(String);

fn parse(text: &str) -> Result<Emulator, InvalidConfig> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root: Value = jsonc_parser::parse_to_serde_value(text, &RELAXED)
        .map_err(|error| InvalidConfig(error.to_string()))?;
    let config = root.get("UserConfig").ok_or_else(|| InvalidConfig("`UserConfig` is missing".into()))?;
    let namespaces = list(config, "UserConfig.Namespaces", "Namespaces")?;
    if namespaces.is_empty() {
        return Err(InvalidConfig("`UserConfig.Namespaces` has 0 entries, expected 1 or more".into()));
    }
    // Editors find the schema of a file by its `$schema`.
    let mut notices = unknown(&root, "the file", &["$schema", "UserConfig"]);
    notices.extend(unknown(config, "`UserConfig`", &["Namespaces", "Logging"]));
    let has_several = namespaces.len() > 1;
    let namespaces = namespaces.iter().enumerate().map(|(at, namespace)| {
        EmulatorNamespace::read(namespace, at).map_err(|InvalidConfig(reason)| {
            InvalidConfig(if has_several { format!("`Namespaces[{at}]`: {reason}") } else { reason })
        })
    });
    Ok(Emulator { namespaces: namespaces.collect::<Result<_, _>>()?, notices })
}

impl EmulatorNamespace {
    fn read(namespace: &Value, at: usize) -> Result<Self, InvalidConfig> {
        let name = namespace.get("Name").and_then(Value::as_str).map(str::to_owned);
        let place = format!("`Namespaces[{at}]`");
        let notices = unknown(namespace, &place, &["Name", "Queues", "Topics"]);
        let mut read = Self { name, notices, ..Self::default() };
        for (at, queue) in optional_list(namespace, "Queues")?.iter().enumerate() {
            let queue = read.queue(queue, &format!("Queues[{at}]"))?;
            read.queues.push(queue);
        }
        for (at, topic) in optional_list(namespace, "Topics")?.iter().enumerate() {
            read.topic(topic, &format!("Topics[{at}]"))?;
        }
        Ok(read)
    }

    /// All of its entities.
    pub(crate) fn into_plans(self) -> impl Iterator<Item = EntityPlan> {
        let queues = self.queues.into_iter().map(|(name, settings)| EntityPlan::queue(name, settings));
        queues.chain(self.topics)
    }

    fn queue(&mut self, queue: &Value, place: &str) -> Result<(String, EntitySettings), InvalidConfig> {
        let name = name(queue, place)?;
        check_entity_name(&name)?;
        let entity = format!("queue `{name}`");
        let properties = Properties { given: object(queue, &entity)?, entity };
        self.notices.extend(unknown(queue, &properties.entity, &["Name", "Properties"]));
        self.name_what_is_not_done(&properties, EntityKind::Queue);
        let settings = properties.settings(EntityKind::Queue)?;
        Ok((name, settings))
    }

    fn name_what_is_not_done(&mut self, properties: &Properties<'_>, kind: EntityKind) {
        let known: Vec<&str> = schema(kind).map(|row| row.element).collect();
        self.notices.extend(unknown_keys(properties.given.keys(), "property", &properties.entity, &known));
        if known.contains(&DUPLICATE_WINDOW) {
            self.notices.extend(properties.raised_duplicate_window());
        }
    }
}

/// Notices about keys of the object at `place` that the emulator's schema does not have.
fn unknown(object: &Value, place: &str, known: &[&str]) -> Vec<String> {
    let keys = object.as_object().into_iter().flat_map(Map::keys);
    unknown_keys(keys, "key", place, known)
}

fn unknown_keys<'k>(
    keys: impl Iterator<Item = &'k String>,
    what: &str,
    place: &str,
    known: &[&str],
) -> Vec<String> {
    let unknown = keys.filter(|key| !known.contains(&key.as_str()));
    let notice = |key: &String| {
        let near = suggest(key, known.iter().copied());
        let near = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        format!("{place}: unknown {what} `{key}` is ignored{near}")
    };
    unknown.map(notice).collect()
}

/// The `Properties` of an entity; empty where there are none.
fn object<'v>(entity: &'v Value, what: &str) -> Result<&'v Map<String, Value>, InvalidConfig> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match entity.get("Properties") {
        None | Some(Value::Null) => Ok(&NONE),
        Some(Value::Object(given)) => Ok(given),
        Some(_) => Err(InvalidConfig(format!("`Properties` of {what} is not an object"))),
    }
}

fn check_entity_name(name: &str) -> Result<(), InvalidConfig> {
    check_service_bus_name(name)
        .map_err(|failure| InvalidConfig(failure.to_string().replace("error: ", "").replace('\n', "; ")))
}

const DUPLICATE_WINDOW: &str = "DuplicateDetectionHistoryTimeWindow";

const DUPLICATE_WINDOW_MIN: std::time::Duration = std::time::Duration::from_secs(20);

/// The properties of one entity.
struct Properties<'p> {
    /// Kind and name, for errors and notices.
    entity: String,
    given: &'p Map<String, Value>,
}

/// The properties that the emulator's schema gives such an entity.
fn schema(kind: EntityKind) -> impl Iterator<Item = &'static PropertyRow> {
    EntityProperty::of(kind).filter(move |row| row.config_json.contains(&kind))
}

impl Properties<'_> {
    /// The settings of an entity, with the emulator's defaults for what is not there.
    fn settings(&self, kind: EntityKind) -> Result<EntitySettings, InvalidConfig> {
        let mut settings = EntitySettings::default();
        for row in schema(kind) {
            let value = match (row.property, row.value_type) {
                (EntityProperty::LockDuration, _) => SettingValue::Time(Some(self.lock_duration()?)),
                (EntityProperty::DuplicateDetectionWindow, _) => {
                    SettingValue::Time(Some(self.duplicate_window()?))
                }
                (EntityProperty::MaxDeliveryCount, _) => SettingValue::Count(self.max_delivery_count()?),
                // The emulator's default is an hour, where the cloud service's is for ever.
                (_, PropertyType::Time | PropertyType::TimeOrForever) => {
                    SettingValue::Time(self.span(row.element, "PT1H")?.finite())
                }
                (_, PropertyType::Flag) => SettingValue::Flag(self.boolean(row.element)?),
                (_, PropertyType::Entity) => SettingValue::Text(self.target(row.element)?),
                // The schema has no others.
                _ => continue,
            };
            row.set(&mut settings, value).expect("the value is of the property's type");
        }
        Ok(settings)
    }

    fn bad(&self, key: &str, expected: &str) -> InvalidConfig {
        let found = self.given.get(key).map(Value::to_string).unwrap_or_default();
        InvalidConfig(format!("{}: `{key}` is {found}, expected {expected}", self.entity))
    }

    fn boolean(&self, key: &str) -> Result<bool, InvalidConfig> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.bad(key, "true or false")),
        }
    }

    fn span(&self, key: &str, default: &str) -> Result<Span, InvalidConfig> {
        let text = match self.given.get(key) {
            None | Some(Value::Null) => default,
            Some(value) => value.as_str().filter(|text| text.starts_with('P')).unwrap_or_default(),
        };
        text.parse().map_err(|_| self.bad(key, "an ISO 8601 duration such as `PT1M`"))
    }

    fn lock_duration(&self) -> Result<std::time::Duration, InvalidConfig> {
        let expected = "a duration above zero and up to `PT5M`";
        let duration = self.span("LockDuration", "PT1M")?.finite();
        let good = duration.filter(|lock| !lock.is_zero() && lock.as_secs() <= 300);
        good.ok_or_else(|| self.bad("LockDuration", expected))
    }

    /// The emulator takes shorter ones than the cloud service, whose shortest is 20 seconds.
    fn duplicate_window(&self) -> Result<std::time::Duration, InvalidConfig> {
        let longest = std::time::Duration::from_secs(604_800);
        let window = self.span(DUPLICATE_WINDOW, "PT20S")?.finite().filter(|window| *window <= longest);
        let window = window.ok_or_else(|| self.bad(DUPLICATE_WINDOW, "a duration up to `P7D`"))?;
        Ok(window.max(DUPLICATE_WINDOW_MIN))
    }

    /// The notice about a window that is too short, if it is.
    fn raised_duplicate_window(&self) -> Option<String> {
        let window = self.span(DUPLICATE_WINDOW, "PT20S").ok()?.finite()?;
        let (entity, found) = (&self.entity, self.given.get(DUPLICATE_WINDOW)?);
        (window < DUPLICATE_WINDOW_MIN).then(|| {
            format!("{entity}: `{DUPLICATE_WINDOW}` is {found}, and `PT20S` is taken, the shortest there is")
        })
    }

    /// The entity that messages are forwarded to; an empty text is none.
    fn target(&self, key: &str) -> Result<Option<Box<str>>, InvalidConfig> {
        match self.given.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(target)) => Ok((!target.is_empty()).then(|| target.as_str().into())),
            Some(_) => Err(self.bad(key, "the name of a queue or topic")),
        }
    }

    fn max_delivery_count(&self) -> Result<u32, InvalidConfig> {
        let key = "MaxDeliveryCount";
        let Some(value) = self.given.get(key).filter(|value| !value.is_null()) else { return Ok(3) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        count
            .filter(|count| (1..=i32::MAX.unsigned_abs()).contains(count))
            .ok_or_else(|| self.bad(key, "1 or more"))
    }
}

fn name(entity: &Value, place: &str) -> Result<String, InvalidConfig> {
    let name = entity.get("Name").and_then(Value::as_str);
    name.map(Into::into).ok_or_else(|| InvalidConfig(format!("`{place}.Name` is missing or not a text")))
}

fn list<'v>(parent: &'v Value, place: &str, key: &str) -> Result<&'v [Value], InvalidConfig> {
    match parent.get(key) {
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(InvalidConfig(format!("`{place}` is not a list"))),
        None => Err(InvalidConfig(format!("`{place}` is missing"))),
    }
}

fn optional_list<'v>(parent: &'v Value, key: &str) -> Result<&'v [Value], InvalidConfig> {
    if parent.get(key).is_none_or(Value::is_null) { Ok(&[]) } else { list(parent, key, key) }
}

/// JSON with comments and trailing commas, as the emulator reads it, and nothing else besides.
const RELAXED: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

#[cfg(test)]
mod tests;
