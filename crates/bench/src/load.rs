//! The load generator: senders and receivers over raw pipelined frames, all senders on one thread and all receivers on
//! another.
//!
//! A closed loop sends while less than `window` messages are unacknowledged on a connection: it measures throughput. An
//! open loop sends each message at the time it is due, whatever the broker does, and stamps it with that time: it
//! measures latency, and a broker that stalls shows in every message that was due meanwhile.
//!
//! Invariant: a run in which a message was refused, lost, damaged or overtaken is an error, not a figure.

mod latency;
mod progress;
mod receiver;
mod sender;
mod socket;
mod template;

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;

use crate::Fallible;
use crate::process_usage::{cpu, rss_kb};

pub(crate) use self::progress::{Counts, Progress};
pub(crate) use self::socket::{Opened, connect, refused};

/// The broker under load.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) port: u16,
    /// Address of the queues; `{}` becomes the number of the queue.
    pub(crate) address: String,
    /// User and password for SASL PLAIN; ANONYMOUS without.
    pub(crate) user: Option<(String, String)>,
    /// Another namespace than the default one.
    pub(crate) namespace: Option<String>,
    /// Process whose CPU and memory are reported.
    pub(crate) pid: Option<u32>,
}

/// Length of a measured run, in time or in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// A measured time after a time that is not measured.
    Time { warm_up: Duration, measured: Duration },
    /// This many messages, from the first to the last acknowledgement (or arrival, where nothing is sent).
    Messages(u64),
}

/// Condition under which the next message is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loop {
    /// While fewer than `window` messages of the connection are unacknowledged, and fewer than `max_backlog` of all are
    /// sent and not received.
    Closed { window: u32, max_backlog: Option<u64> },
    /// This many a second, of all senders together.
    Open { rate: u32 },
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) senders: u32,
    pub(crate) receivers: u32,
    /// Sender and receiver `i` use queue `i` modulo this.
    pub(crate) queues: u32,
    /// Bytes of a body.
    pub(crate) size: usize,
    pub(crate) durable: bool,
    pub(crate) pace: Loop,
    /// Credit of a receiver, topped up at half.
    pub(crate) credit: u32,
    /// Messages that are acknowledged before the receivers ask for the first one.
    pub(crate) starts_behind: u64,
    /// Nice value of the generator's two threads; zero leaves that of the process.
    pub(crate) nice: i32,
    pub(crate) extent: Extent,
}

/// Percentiles in microseconds: p50, p99, p99.9.
pub(crate) type Percentiles = [f64; 3];

/// Figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Seconds of the measured part.
    pub(crate) seconds: f64,
    /// Messages of the measured part.
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
    pub(crate) received: u64,
    /// From the time a message was due (open loop) or made (closed loop) until its acknowledgement was read.
    pub(crate) acknowledgement: Option<Percentiles>,
    /// The slowest of these, in microseconds.
    pub(crate) slowest: Option<f64>,
    /// From the time a message was due until the generator handed it to the socket (open loop).
    pub(crate) delay: Option<Percentiles>,
    /// From the same time until the message was read.
    pub(crate) end_to_end: Option<Percentiles>,
    /// CPU of the broker for each message, sent and received.
    pub(crate) broker_cpu_us: Option<f64>,
    pub(crate) rss_kb: Option<f64>,
}

/// Times of a run, as [`Outcome`] has them.
struct Times {
    acknowledgement: Option<Percentiles>,
    slowest: Option<f64>,
    delay: Option<Percentiles>,
    end_to_end: Option<Percentiles>,
}

/// Time for the last acknowledgements and for the backlog after the measured part.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(2);

impl Load {
    /// Runs it to its end.
    pub(crate) fn run(&self, peer: &Peer) -> Fallible<Outcome> {
        self.run_with(peer, DRAIN_LIMIT)
    }

    /// The same with another time for what is left over at the end.
    fn run_with(&self, peer: &Peer, drain_limit: Duration) -> Fallible<Outcome> {
        let (outcome, times) = self.around(peer, |progress| self.measure(peer, progress, drain_limit))?;
        Ok(Outcome {
            acknowledgement: times.acknowledgement,
            slowest: times.slowest,
            delay: times.delay,
            end_to_end: times.end_to_end,
            ..outcome
        })
    }

    /// Does `work` while the broker is under this load, whose extent does not count. Afterwards everything that was sent has
    /// to be received within `drain_limit`.
    pub(crate) fn beside<T>(
        &self,
        peer: &Peer,
        drain_limit: Duration,
        work: impl FnOnce(&Progress) -> Fallible<T>,
    ) -> Fallible<T> {
        let whole = |progress: &Progress| {
            let done = work(progress)?;
            progress.stop_sending();
            self.drain(progress, drain_limit)?;
            Ok(done)
        };
        self.around(peer, whole).map(|(done, _)| done)
    }

    /// Does `work` while both threads run.
    fn around<T>(&self, peer: &Peer, work: impl FnOnce(&Progress) -> Fallible<T>) -> Fallible<(T, Times)> {
        let progress = Progress::new();
        let mut senders = sender::Senders::connect(self, peer, &progress)?;
        let mut receivers = receiver::Receivers::connect(self, peer, &progress)?;
        let done = thread::scope(|scope| {
            let sending =
                scope.spawn(|| progress.guard(|| self.lower_priority().and_then(|()| senders.run())));
            let receiving =
                scope.spawn(|| progress.guard(|| self.lower_priority().and_then(|()| receivers.run())));
            let done = work(&progress);
            // Both threads have to end, also after failed work.
            progress.end();
            let ended = [sending.join(), receiving.join()];
            for end in ended {
                end.map_err(|_| "a thread of the generator has panicked")??;
            }
            done
        })?;
        let times = Times {
            acknowledgement: senders.latencies(),
            slowest: senders.slowest(),
            delay: senders.delays(),
            end_to_end: receivers.latencies(),
        };
        Ok((done, times))
    }

    /// Gives the calling thread the nice value of the load. On Linux a thread has its own.
    fn lower_priority(&self) -> Fallible<()> {
        if self.nice != 0 {
            setpriority_process(None, self.nice)?;
        }
        Ok(())
    }

    fn measure(&self, peer: &Peer, progress: &Progress, drain_limit: Duration) -> Fallible<Outcome> {
        let used = || peer.pid.map(cpu).transpose();
        match self.extent {
            Extent::Time { warm_up, measured } => {
                progress.wait(warm_up)?;
                let (begin, before, cpu_before) = (Instant::now(), progress.counts(), used()?);
                progress.measured().begin(progress.now());
                progress.wait(measured)?;
                progress.measured().end(progress.now());
                let (seconds, after, cpu_after) = (begin.elapsed(), progress.counts(), used()?);
                progress.stop_sending();
                let outcome = self.outcome(seconds, after - before, cpu_before.zip(cpu_after), peer);
                self.drain(progress, drain_limit)?;
                Ok(outcome)
            }
            Extent::Messages(messages) => {
                let (begin, cpu_before) = (Instant::now(), used()?);
                progress.measured().begin(progress.now());
                let done = |counts: Counts| {
                    if self.senders > 0 {
                        counts.acknowledged >= messages
                    } else {
                        counts.received >= messages
                    }
                };
                progress.until(drain_limit, done)?;
                let (seconds, cpu_after) = (begin.elapsed(), used()?);
                Ok(self.outcome(seconds, progress.counts(), cpu_before.zip(cpu_after), peer))
            }
        }
    }

    /// Waits until every message is acknowledged and, where there are receivers, received: what is left over is lost.
    fn drain(&self, progress: &Progress, limit: Duration) -> Fallible<()> {
        let whole = |counts: Counts| {
            (self.senders == 0 || counts.acknowledged == counts.sent)
                && (self.senders == 0 || self.receivers == 0 || counts.received >= counts.acknowledged)
        };
        progress.until(limit, whole)
    }

    fn outcome(
        &self,
        elapsed: Duration,
        counts: Counts,
        cpu: Option<(Duration, Duration)>,
        peer: &Peer,
    ) -> Outcome {
        let Counts { sent, acknowledged, received } = counts;
        // A message that is sent and received counts once.
        let sides = u32::from(self.senders > 0) + u32::from(self.receivers > 0);
        #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in a run")]
        let messages = (sent + received) as f64 / f64::from(sides.max(1));
        let broker_cpu_us = cpu
            .filter(|_| messages > 0.0)
            .map(|(before, after)| after.saturating_sub(before).as_secs_f64() * 1e6 / messages);
        Outcome {
            seconds: elapsed.as_secs_f64(),
            sent,
            acknowledged,
            received,
            broker_cpu_us,
            rss_kb: peer.pid.and_then(rss_kb),
            ..Outcome::default()
        }
    }
}

impl Outcome {
    /// Messages a second of the slower side.
    pub(crate) fn rate(&self) -> f64 {
        let slower = [self.sent, self.received].into_iter().filter(|count| *count > 0).min();
        #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in a run")]
        slower.map_or(0.0, |count| count as f64 / self.seconds)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:.0} messages/s ({} sent, {} acknowledged, {} received in {:.2} s)",
            self.rate(),
            self.sent,
            self.acknowledged,
            self.received,
            self.seconds
        )?;
        let times = [("acknowledged", self.acknowledgement), ("end to end", self.end_to_end)];
        for (name, [p50, p99, p999]) in times.into_iter().filter_map(|(name, times)| Some((name, times?))) {
            write!(out, "\n{name}: p50 {p50:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs")?;
        }
        if let Some(cpu) = self.broker_cpu_us {
            write!(out, "\nbroker: {cpu:.2} µs CPU a message")?;
        }
        if let Some(kb) = self.rss_kb {
            write!(out, "\nbroker: {:.0} MB resident", kb / 1024.0)?;
        }
        Ok(())
    }
}

/// Opens connections with one receiving link each, which do nothing until they are dropped.
pub(crate) fn idle(peer: &Peer, connections: u32) -> Fallible<Vec<Opened>> {
    // Each is an open file; where the limit stays too low, connecting says so.
    rlimit::increase_nofile_limit(u64::from(connections) + 100)?;
    (0..connections)
        .map(|index| {
            let mut opened = connect(peer)?;
            opened.attach_receiver(index, &peer.address.replace("{}", &(index % IDLE_QUEUES).to_string()))?;
            Ok(opened)
        })
        .collect()
}

/// Queues that idle links are spread over.
const IDLE_QUEUES: u32 = 8;

#[cfg(test)]
mod tests;
