use broker_core::{Command, Effect, Ticket};

use super::generator::{Answers, Batches, SIZE};
use super::*;

fn measurement(rates: [f64; 3]) -> Measurement {
    let throughput = |messages_a_second| Throughput {
        messages_a_second,
        cpu_us: 3.0,
        messages_a_sync: 1_000.0,
        disk_messages_a_second: 2e6 - messages_a_second,
    };
    let serial =
        SerialParts { node_us: 2.0, write_us: 1_000.0, messages_a_sync: 1_000.0, bytes_a_sync: 1_048_576.0 };
    Measurement {
        throughputs: LOADS.map(|_| rates.map(throughput).to_vec()),
        serial,
        syncs: vec![2_000.0, 3_000.0, 4_000.0],
    }
}

#[test]
fn each_load_has_its_own_rows() {
    let mut measured = measurement([400_000.0, 700_000.0, 500_000.0]);
    measured.throughputs[1] = measurement([400_000.0, 500_000.0, 500_000.0]).throughputs[1].clone();
    let ratios = LOADS.map(|load| rows(std::slice::from_ref(&measured), load)[1][2].clone());
    assert_eq!((LOADS, ratios), ([Load::Rounds, Load::Full], ["1.75".to_owned(), "1.25".to_owned()]));
}

fn published(first: u64, last: u64) -> Effect {
    Effect::Published { first: Ticket(first), last: Ticket(last) }
}

#[test]
fn the_ratio_is_the_median_of_the_ratios_of_the_runs() {
    // The medians are 400,000 and 700,000; the ratios are 1.5, 1.75 and 1.7.
    let all = [
        measurement([400_000.0, 600_000.0, 500_000.0]),
        measurement([400_000.0, 700_000.0, 500_000.0]),
        measurement([500_000.0, 850_000.0, 500_000.0]),
    ];
    let rows = rows(&all, Load::Rounds);
    assert_eq!(rows[0], ["1", "400000", "1.00", "", "3.00", "1000", "1600000", "1.00"]);
    assert_eq!(rows[1], ["2", "700000", "1.70", "≥ 1.6", "3.00", "1000", "1300000", "0.81"]);
    assert_eq!(rows[2][..2], ["4", "500000"]);
}

#[test]
fn a_missed_goal_is_told() {
    assert_eq!(rows(&[measurement([400_000.0, 600_000.0, 1.0])], Load::Full)[1][3], "≥ 1.6: missed");
}

#[test]
fn the_report_has_every_number_of_shards_and_every_estimate() {
    let scale = Scale { folder: PathBuf::new(), seconds: 5 };
    let report = scale.report(&Ok(vec![measurement([400_000.0, 700_000.0, 500_000.0])]), 1);
    for part in ["| 1 ", "| 2 ", "| 4 ", "2 cores, 2 shards", "8 cores, 8 shards", "32 cores, 32 shards"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    assert!(!report.contains("\\n"), "{report}");
}

#[test]
fn a_run_without_a_result_says_why_and_has_no_figure() {
    let scale = Scale { folder: PathBuf::new(), seconds: 5 };
    let report = scale.report(&Err("12 messages are not answered".to_owned()), 5);
    assert!(report.contains("no result: 12 messages are not answered"), "{report}");
    assert!(!report.contains('≥') && !report.contains("estimated"), "{report}");
}

#[test]
fn an_answer_that_is_missing_or_is_no_acceptance_is_an_error() {
    let mut answers = Answers::default();
    answers.take(vec![published(0, 9), published(10, 10)]).unwrap();
    assert_eq!(answers.accepted, 11);
    let refused =
        Effect::PublishRefused { ticket: Ticket(11), error: broker_core::PublishError::NotFound("q".into()) };
    // The last one skips message 11.
    for effect in [refused, published(12, 20)] {
        let error = answers.take(vec![effect]).unwrap_err().to_string();
        assert!(error.contains("message 11 was answered"), "{error}");
    }
}

#[test]
fn a_batch_has_consecutive_tickets_and_whole_payloads() {
    let mut batches = Batches::new(broker_core::QueueId(3), 250);
    let _first = batches.make();
    let second = batches.make();
    assert_eq!(second.len(), 250);
    for (command, wanted) in second.iter().zip(250..) {
        let Command::Publish { queue, message, ticket } = command else { panic!("{command:?}") };
        assert_eq!((queue.0, *ticket), (3, Some(Ticket(wanted))));
        assert!(message.payload.len() > SIZE && message.payload.len() < SIZE + 64);
    }
}

#[test]
fn nothing_durable_is_no_figure() {
    assert!(Throughput::of(Duration::from_secs(1), 0, Duration::ZERO, 1).is_err());
    assert!(Throughput::of(Duration::from_secs(1), 1, Duration::ZERO, 0).is_err());
}

#[test]
fn messages_go_through_every_number_of_shards_and_each_part_is_measured() {
    let folder = std::env::temp_dir().join(format!("ferrybus-scale-{}", std::process::id()));
    for (shards, load) in [(1, Load::Full), (2, Load::Full), (1, Load::Rounds), (2, Load::Rounds)] {
        std::fs::remove_dir_all(&folder).ok();
        let measured =
            throughput(&folder, (shards, load), Duration::ZERO, Duration::from_millis(500)).unwrap();
        assert!(measured.messages_a_second > 0.0 && measured.cpu_us > 0.0);
        assert!(measured.messages_a_sync > 0.0);
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let parts = serial::measure(&folder, 2, Duration::from_millis(200)).unwrap();
    assert!(parts.node_us > 0.0 && parts.write_us > 0.0);
    assert!(parts.bytes_a_sync > parts.messages_a_sync * 1_024.0, "{parts:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
