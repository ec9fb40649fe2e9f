use http_body_util::BodyExt;

use super::*;

async fn text(answer: HttpResponse) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn each_probe_is_answered_as_its_asker_reads_it() {
    use HealthProblem::{DiskFull, Ended, MemoryFull, Recovering, Silent, Stopping};
    let unavailable = |reason: &str| (503, format!(r#"{{"reason":"{reason}","status":"unavailable"}}"#));
    let full = "the disk is full, sends are refused";
    let no_memory = "the memory is full, sends are refused";
    let ended = "the journal failed, nothing is accepted until a restart";
    let silent = "the broker did not answer within 2 s";
    let stopping = "the broker is stopping";
    let recovering = "a shard recovers from a failure, its clients connect again";
    let (one, all) = (Recovering { others: true }, Recovering { others: false });
    let alive = (200, r#"{"status":"alive"}"#.to_owned());
    let cases = [
        (Probe::Alive, None, alive.clone()),
        (Probe::Alive, Some(DiskFull), alive.clone()),
        (Probe::Alive, Some(Stopping), alive.clone()),
        (Probe::Alive, Some(one), alive.clone()),
        (Probe::Alive, Some(all), alive),
        (Probe::Ready, Some(one), (200, format!(r#"{{"reason":"{recovering}","status":"degraded"}}"#))),
        (Probe::Ready, Some(all), unavailable(recovering)),
        (Probe::Sends, Some(one), unavailable(recovering)),
        (Probe::Emulator, Some(one), (503, format!(r#"{{"message":"{recovering}","status":"unhealthy"}}"#))),
        (Probe::Alive, Some(Ended), unavailable(ended)),
        (Probe::Alive, Some(Silent), unavailable(silent)),
        (Probe::Ready, None, (200, r#"{"status":"ready"}"#.to_owned())),
        (Probe::Ready, Some(DiskFull), (200, format!(r#"{{"reason":"{full}","status":"degraded"}}"#))),
        (Probe::Alive, Some(MemoryFull), (200, r#"{"status":"alive"}"#.to_owned())),
        (Probe::Ready, Some(MemoryFull), (200, format!(r#"{{"reason":"{no_memory}","status":"degraded"}}"#))),
        (Probe::Sends, Some(MemoryFull), unavailable(no_memory)),
        (Probe::Ready, Some(Stopping), unavailable(stopping)),
        (Probe::Ready, Some(Ended), unavailable(ended)),
        (Probe::Ready, Some(Silent), unavailable(silent)),
        (Probe::Sends, None, (200, r#"{"status":"ready"}"#.to_owned())),
        (Probe::Sends, Some(DiskFull), unavailable(full)),
        (Probe::Sends, Some(Stopping), unavailable(stopping)),
        (Probe::Sends, Some(Ended), unavailable(ended)),
        (Probe::Sends, Some(Silent), unavailable(silent)),
        (Probe::Emulator, None, (200, r#"{"message":"Service is healthy.","status":"healthy"}"#.to_owned())),
        (Probe::Emulator, Some(DiskFull), (503, format!(r#"{{"message":"{full}","status":"unhealthy"}}"#))),
    ];
    for (probe, health_problem, expected) in cases {
        assert_eq!(
            text(health_response(probe, health_problem)).await,
            expected,
            "{probe:?} {health_problem:?}"
        );
    }
}
