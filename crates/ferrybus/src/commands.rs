//! Commands: maps a parsed command line to the function that performs it.
//!
//! Invariant: each command is named here once.

use crate::{
    arguments::{
        Arguments, CertCommand, ClockCommand, Command, ConfigCommand, ConnectionCommand, DeadLetterCommand,
        EntityCommand, FaultCommand, JournalCommand, Kind, NamespaceCommand, NamespaceKeyCommand,
        RuleCommand, SessionCommand, StateCommand, SubscriptionCommand,
    },
    certificates,
    client::{
        self, BrokerEndpoint, config, connections, dead_letters, entities, management::EntityRef, namespaces,
        rules, sessions,
    },
    failure::Failure,
    journal, man_page, serve,
};

/// Does what was asked for.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        None => serve::run(&arguments.serve),
        Some(Command::Serve(serve)) => serve::run(&serve),
        Some(Command::Cert(CertCommand::Dev(dev))) => certificates::run(&dev),
        Some(Command::Journal(JournalCommand::Check(check))) => journal::check(&check),
        Some(Command::Journal(JournalCommand::Repair { journal, yes })) => journal::repair(&journal, yes),
        Some(Command::Journal(JournalCommand::Migrate(journal))) => journal::migrate(&journal),
        Some(Command::Config(ConfigCommand::Apply(apply))) => {
            client::run(&apply.connect, |target| config::apply(target, &apply))
        }
        Some(Command::Queue(command)) => entity(command),
        Some(Command::Topic(command)) => entity(command),
        Some(Command::Subscription(command)) => subscription(command),
        Some(Command::Rule(command)) => rule(command),
        Some(Command::Namespace(command)) => namespace(command),
        Some(Command::Send(send)) => {
            client::run_on(&send.connect, &[&send.queue], |target| client::send(target, &send))
        }
        Some(Command::Receive(receive)) => {
            client::run_on(&receive.connect, &[&receive.queue], |target| client::receive(target, &receive))
        }
        Some(Command::Peek(peek)) => {
            client::run_on(&peek.connect, &[&peek.queue], |target| client::peek(target, &peek))
        }
        Some(Command::Purge(purge)) => {
            client::run_on(&purge.connect, &[&purge.queue], |target| client::purge(target, &purge))
        }
        Some(Command::DeadLetter(command)) => dead_letter(command),
        Some(Command::Session(command)) => session(command),
        Some(Command::Connection(command)) => connection(command),
        Some(Command::Top(top)) => client::run(&top.connect, |target| client::top::top(target, &top)),
        Some(Command::Health { live, sends, config, connect }) => {
            let target = client::probe_target(&connect, config.as_deref())?;
            let path = client::health_path(live, sends);
            client::run_at(target, |target| client::health(target, path, connect.json))
        }
        Some(Command::Clock(command)) => clock(command),
        Some(Command::Fault(command)) => fault(command),
        Some(Command::Bench(bench)) => {
            client::run_on(&bench.connect, &[&bench.queue], |target| client::bench(target, &bench))
        }
        Some(Command::Completions { shell }) => man_page::completions(shell),
        Some(Command::Man { folder }) => man_page::pages(folder.as_deref()),
    }
}

fn namespace(command: NamespaceCommand) -> Result<(), Failure> {
    match command {
        NamespaceCommand::Create { name, given, shard, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::create(target, &name, (&given, shard), admin.connect.json)
            })
        }
        NamespaceCommand::Show { name, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::show(target, &name, admin.connect.json)
            })
        }
        NamespaceCommand::List { admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::list(target, admin.connect.json)
            })
        }
        NamespaceCommand::Set { name, given, hold, no_hold, admin } => {
            let held = (hold || no_hold).then_some(hold);
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::set(target, &name, (&given, held), admin.connect.json)
            })
        }
        NamespaceCommand::Delete { name, yes, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::delete(target, &name, yes, admin.connect.json)
            })
        }
        NamespaceCommand::Key(command) => namespace_key(command),
    }
}

fn namespace_key(command: NamespaceKeyCommand) -> Result<(), Failure> {
    match command {
        NamespaceKeyCommand::Create { namespace, key, rights, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::create_key(target, (&namespace, &key), &rights, admin.connect.json)
            })
        }
        NamespaceKeyCommand::List { namespace, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::list_keys(target, &namespace, admin.connect.json)
            })
        }
        NamespaceKeyCommand::Delete { namespace, key, admin } => {
            client::run_at(BrokerEndpoint::of_administrator(&admin)?, |target| {
                namespaces::delete_key(target, (&namespace, &key), admin.connect.json)
            })
        }
    }
}

fn dead_letter(command: DeadLetterCommand) -> Result<(), Failure> {
    match command {
        DeadLetterCommand::List(selection) => {
            client::run_on(&selection.connect, &[&selection.queue], |target| {
                dead_letters::list(target, &selection)
            })
        }
        DeadLetterCommand::Resubmit { selection, to, new_id } => {
            let names: Vec<&str> = [selection.queue.as_str()].into_iter().chain(to.as_deref()).collect();
            client::run_on(&selection.connect, &names, |target| {
                dead_letters::resubmit(target, &selection, to.as_deref(), new_id)
            })
        }
        DeadLetterCommand::Purge(selection) => {
            client::run_on(&selection.connect, &[&selection.queue], |target| {
                dead_letters::remove(target, &selection)
            })
        }
    }
}

fn session(command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List { queue, connect } => {
            client::run_on(&connect, &[&queue], |target| sessions::list(target, &queue, connect.json))
        }
        SessionCommand::State(StateCommand::Get { queue, session, connect }) => {
            client::run_on(&connect, &[&queue], |target| {
                sessions::get_state(target, &queue, &session, connect.json)
            })
        }
        SessionCommand::State(StateCommand::Set { queue, session, state, connect }) => {
            client::run_on(&connect, &[&queue], |target| {
                sessions::set_state(target, &queue, &session, &state, connect.json)
            })
        }
    }
}

fn connection(command: ConnectionCommand) -> Result<(), Failure> {
    match command {
        ConnectionCommand::List { operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                connections::list(target, operator.connect.json)
            })
        }
        ConnectionCommand::Close { id, operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                connections::close(target, id, operator.connect.json)
            })
        }
    }
}

fn clock(command: ClockCommand) -> Result<(), Failure> {
    match command {
        ClockCommand::Show { operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                client::show_clock(target, operator.connect.json)
            })
        }
        ClockCommand::Advance { by, operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                client::advance_clock(target, by, operator.connect.json)
            })
        }
    }
}

fn fault(command: FaultCommand) -> Result<(), Failure> {
    match command {
        FaultCommand::Add(fault) => client::run_at(BrokerEndpoint::of_operator(&fault.operator)?, |target| {
            client::add_fault(target, &fault)
        }),
        FaultCommand::List { operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                client::list_faults(target, operator.connect.json)
            })
        }
        FaultCommand::Clear { number, operator } => {
            client::run_at(BrokerEndpoint::of_operator(&operator)?, |target| {
                client::clear_faults(target, number, operator.connect.json)
            })
        }
    }
}

fn entity<K: Kind>(command: EntityCommand<K>) -> Result<(), Failure> {
    let entity_ref = |name: &str| EntityRef::new(K::KIND, name);
    match command {
        EntityCommand::Create { name, properties, connect } => client::run(&connect, |target| {
            entities::create(target, entity_ref(&name), &properties.given, connect.json)
        }),
        EntityCommand::Update { name, properties, force, connect } => client::run(&connect, |target| {
            entities::update(target, entity_ref(&name), (&properties.given, force), connect.json)
        }),
        EntityCommand::Show { name, connect } => {
            client::run(&connect, |target| entities::show(target, entity_ref(&name), connect.json))
        }
        EntityCommand::List { connect } => {
            client::run(&connect, |target| entities::list(target, entity_ref(""), connect.json))
        }
        EntityCommand::Delete { name, connect } => {
            client::run(&connect, |target| entities::delete(target, entity_ref(&name), connect.json))
        }
    }
}

fn subscription(command: SubscriptionCommand) -> Result<(), Failure> {
    match command {
        SubscriptionCommand::Create { topic, name, properties, connect } => client::run(&connect, |target| {
            entities::create(target, EntityRef::subscription(&topic, &name), &properties.given, connect.json)
        }),
        SubscriptionCommand::Update { topic, name, properties, force, connect } => {
            let (entity_ref, given) = (EntityRef::subscription(&topic, &name), &properties.given);
            client::run(&connect, |target| entities::update(target, entity_ref, (given, force), connect.json))
        }
        SubscriptionCommand::Show { topic, name, connect } => client::run(&connect, |target| {
            entities::show(target, EntityRef::subscription(&topic, &name), connect.json)
        }),
        SubscriptionCommand::List { topic, connect } => client::run(&connect, |target| {
            entities::list(target, EntityRef::subscription(&topic, ""), connect.json)
        }),
        SubscriptionCommand::Delete { topic, name, connect } => client::run(&connect, |target| {
            entities::delete(target, EntityRef::subscription(&topic, &name), connect.json)
        }),
    }
}

fn rule(command: RuleCommand) -> Result<(), Failure> {
    match command {
        RuleCommand::Create(rule) => client::run(&rule.connect, |target| rules::create(target, &rule)),
        RuleCommand::Update { rule, force } => {
            client::run(&rule.connect, |target| rules::update(target, &rule, force))
        }
        RuleCommand::Show { rule, connect } => {
            client::run(&connect, |target| rules::show(target, &rule, connect.json))
        }
        RuleCommand::List { topic, subscription, connect } => client::run(&connect, |target| {
            rules::list(target, EntityRef::subscription(&topic, &subscription), connect.json)
        }),
        RuleCommand::Delete { rule, connect } => {
            client::run(&connect, |target| rules::delete(target, &rule, connect.json))
        }
    }
}
