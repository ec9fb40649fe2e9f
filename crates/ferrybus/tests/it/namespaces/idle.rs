//! The cost of a thousand namespaces that nobody uses, as the system sees it.

use std::{fmt::Write as _, fs, thread, time::Duration};

use crate::{
    memory::{KIB, MIB, of_process},
    support::{Broker, Folder},
};

const NAMESPACES: u32 = 1_000;
/// Memory that they may take together. In this build it is 7.0 to 8.5 MB, the more at a start that creates them, and 7 MB in a release build
/// (docs/performance.md): the same structures have the same size. Pages of the program file are left out, which come with the first use.
const MEMORY: u64 = 10 * MIB;
/// Time for which a broker is left alone.
const IDLE: Duration = Duration::from_secs(2);
/// Tries, of which one has to cost nothing.
const TIMES: u32 = 5;

/// A broker with so many namespaces in its file.
fn start(folder: &Folder, namespaces: u32) -> Broker {
    let mut configuration = "listen = [\"127.0.0.1:0\"]\nlisten_http = []\ndurability = \"os\"\n\
         [limits]\nio_threads = 2\n[journal]\ncache_bytes = \"1 MiB\"\n"
        .to_owned();
    for number in 0..namespaces {
        write!(configuration, "[[namespace]]\nname = \"team-{number}\"\nmax_entities = 100\n").unwrap();
    }
    let name = format!("ferrybus-{namespaces}.toml");
    folder.write(&name, &configuration);
    let data = format!("data-{namespaces}");
    Broker::start(&folder.0, &["--config", &name, "--data-dir", &data])
}

/// Ticks for which the processor has worked for a broker, its threads and its kernel together.
fn ticks(broker: &Broker) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", broker.id())).unwrap();
    // The name of the program, which may have spaces, ends with the parenthesis.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_thousand_namespaces_that_nobody_uses_cost_little_memory_and_no_processor_time() {
    let folder = Folder::new("namespaces-idle");
    let brokers = [0, NAMESPACES].map(|number| start(&folder, number));
    assert!(ticks(&brokers[1]) > 0, "the start has taken some");
    // Work that the start has left may fall into the first times.
    let costs_nothing = (0..TIMES).any(|_| {
        let before = brokers.each_ref().map(ticks);
        // Nothing is waited for: what a broker does in this time is what is measured.
        thread::sleep(IDLE);
        let after = brokers.each_ref().map(ticks);
        let [without, with] = [0, 1].map(|index| after[index] - before[index]);
        eprintln!("{without} ticks without namespaces, {with} with {NAMESPACES}");
        with <= without + 1
    });
    assert!(costs_nothing, "they take processor time while nobody uses them");
    let [without, with] = brokers.each_ref().map(|broker| of_process(broker, "RssAnon:"));
    eprintln!("{} KiB without namespaces, {} with {NAMESPACES}", without / KIB, with / KIB);
    assert!(with <= without + MEMORY, "{with} bytes, {without} without them");
}
