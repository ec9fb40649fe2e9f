//! Many clients of one namespace, each on a TCP connection of its own, that send until the broker closes them.
//!
//! Invariant: a client awaits the outcome of each message before it sends the next one, and looks before each whether the
//! deletion was answered. Some of them wait for that, and send then.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use amqp_codec::performative::{DeliveryState, Error, Open, Performative};
use testkit::{Incoming, Script};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::{self, Runtime},
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};

/// Connections that are being opened at the same time: fewer than a listener lets wait.
const OPENING: usize = 100;
/// One client in this many sends its second message when the deletion was answered, whether it was told by then or not.
pub(crate) const LATE: usize = 10;
/// The only link of a client.
const LINK: u32 = 0;
/// Longest wait for all clients together. Far beyond what they need, so that only a broker that never answers meets it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where the clients go, and with which key.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) namespace: &'static str,
    pub(crate) queue: &'static str,
    /// Name and text.
    pub(crate) key: (&'static str, String),
}

/// Messages of one client, and the end of its connection.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) accepted: usize,
    /// Those of them that it began to send after the deletion was answered.
    pub(crate) accepted_late: usize,
    pub(crate) sent_late: usize,
    pub(crate) ending: Ending,
}

/// End of a connection, as its client saw it.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The broker sent a close with this error, and ended the stream once the client had answered.
    Closed(Error),
    /// Anything else.
    Broken(String),
}

/// Numbers of clients.
#[derive(Debug, Default)]
struct Progress {
    attached: usize,
    /// Those of which at least one message was accepted.
    served: usize,
    departed: usize,
    /// Reason of a departure that is no orderly close.
    broken: Option<String>,
}

/// State of all clients.
struct Shared {
    target: Target,
    opening: Semaphore,
    progress: watch::Sender<Progress>,
    may_send: watch::Sender<bool>,
    is_deletion_answered: watch::Sender<bool>,
}

/// Clients at work, on threads of their own.
pub(crate) struct Crowd {
    runtime: Runtime,
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Departure>>,
}

impl Crowd {
    /// Connects so many clients and waits until each has a link with credit.
    pub(crate) fn connect(target: Target, count: usize) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            target,
            opening: Semaphore::new(OPENING),
            progress: watch::Sender::default(),
            may_send: watch::Sender::new(false),
            is_deletion_answered: watch::Sender::new(false),
        });
        let clients =
            (0..count).map(|number| runtime.spawn(live(Arc::clone(&shared), number % LATE == 0))).collect();
        let crowd = Self { runtime, shared, clients };
        crowd.until(|progress| progress.attached);
        crowd
    }

    /// Has all of them send, and waits until each was served.
    pub(crate) fn send(&self) {
        self.shared.may_send.send_replace(true);
        self.until(|progress| progress.served);
    }

    /// The deletion was answered: what a client begins to send from now on is late.
    pub(crate) fn note_answer(&self) {
        self.shared.is_deletion_answered.send_replace(true);
    }

    /// Waits until no client is connected any more.
    pub(crate) fn depart(self) -> Vec<Departure> {
        self.until(|progress| progress.departed);
        let Self { runtime, clients, .. } = self;
        clients.into_iter().map(|client| runtime.block_on(client).unwrap()).collect()
    }

    /// Waits until this is the number of all clients.
    fn until(&self, number: impl Fn(&Progress) -> usize) {
        let mut progress = self.shared.progress.subscribe();
        let is_over =
            |progress: &Progress| number(progress) == self.clients.len() || progress.broken.is_some();
        self.runtime.block_on(async {
            let waited = timeout(PATIENCE, progress.wait_for(is_over)).await.map(drop);
            let progress = self.shared.progress.borrow();
            assert!(
                waited.is_ok() && progress.broken.is_none(),
                "of {} clients {progress:?}",
                self.clients.len()
            );
        });
    }
}

/// The life of one client.
async fn live(shared: Arc<Shared>, waits_for_answer: bool) -> Departure {
    let mut departure =
        Departure { accepted: 0, accepted_late: 0, sent_late: 0, ending: Ending::Broken(String::new()) };
    departure.ending = match send_until_closed(&shared, waits_for_answer, &mut departure).await {
        Ok(error) => Ending::Closed(error),
        Err(error) => Ending::Broken(error.to_string()),
    };
    shared.progress.send_modify(|progress| {
        progress.departed += 1;
        if let Ending::Broken(reason) = &departure.ending {
            progress.broken = Some(reason.clone());
        }
    });
    departure
}

async fn send_until_closed(
    shared: &Shared,
    waits_for_answer: bool,
    departure: &mut Departure,
) -> io::Result<Error> {
    let mut client = {
        let _place = shared.opening.acquire().await.unwrap();
        Client::attached(&shared.target).await?
    };
    shared.progress.send_modify(|progress| progress.attached += 1);
    shared.may_send.subscribe().wait_for(|may_send| *may_send).await.unwrap();
    let mut answered = shared.is_deletion_answered.subscribe();
    for id in 0.. {
        if id == 1 && waits_for_answer {
            answered.wait_for(|is_answered| *is_answered).await.unwrap();
        }
        let is_late = *answered.borrow();
        departure.sent_late += usize::from(is_late);
        if let Sent::Closed(error) = client.send(id).await? {
            return Ok(error);
        }
        departure.accepted += 1;
        departure.accepted_late += usize::from(is_late);
        if id == 0 {
            shared.progress.send_modify(|progress| progress.served += 1);
        }
    }
    Err(io::Error::other("the numbers of deliveries are used up"))
}

/// Answer to a message.
enum Sent {
    Accepted,
    /// None but the close of the connection.
    Closed(Error),
}

/// One connection with one link.
struct Client {
    stream: TcpStream,
    script: Script,
    /// The delivery-count up to which it may send.
    credit_end: u32,
}

impl Client {
    /// Logs in and attaches.
    async fn attached(target: &Target) -> io::Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, script: Script::new(), credit_end: 0 };
        let open =
            Open { hostname: Some(format!("vhost:{}", target.namespace)), ..Open::new("one of a crowd") };
        client.script.sasl_plain(target.key.0, &target.key.1).open_with(open).begin(0);
        client.script.attach_sender(0, LINK, "out", Some(target.queue));
        client.until_credit(0).await?.map_or(Ok(client), |error| Err(unexpected(&error)))
    }

    /// Sends one message and waits for its outcome.
    async fn send(&mut self, id: u32) -> io::Result<Sent> {
        if let Some(error) = self.until_credit(id).await? {
            return Ok(Sent::Closed(error));
        }
        self.script.transfer(0, LINK, id, false, &testkit::data(b"one of many"));
        loop {
            match self.next().await? {
                Performative::Disposition(outcome) if outcome.state == Some(DeliveryState::Accepted) => {
                    return if outcome.first == id { Ok(Sent::Accepted) } else { Err(unexpected(&outcome)) };
                }
                Performative::Close(close) => return self.close(close.error).await.map(Sent::Closed),
                // Its queue goes before its connection.
                Performative::Detach(_) | Performative::Flow(_) => {}
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Waits until the delivery of this number may be sent. An error: the broker closed the connection instead.
    async fn until_credit(&mut self, id: u32) -> io::Result<Option<Error>> {
        while self.credit_end <= id {
            match self.next().await? {
                Performative::Close(close) => return self.close(close.error).await.map(Some),
                Performative::Disposition(outcome) => return Err(unexpected(&outcome)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Answers the close, and waits for the end of the stream.
    async fn close(&mut self, error: Option<Error>) -> io::Result<Error> {
        let error = error.ok_or_else(|| io::Error::other("a close without an error"))?;
        self.script.close(None);
        match self.next().await {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => Ok(error),
            Err(other) => Err(other),
            Ok(frame) => Err(unexpected(&frame)),
        }
    }

    /// Writes what it has to say, then waits for the next frame.
    async fn next(&mut self) -> io::Result<Performative> {
        self.stream.write_all(&self.script.take_output()).await?;
        loop {
            match self.script.poll() {
                Some(Incoming::Frame(received)) => {
                    if let Performative::Flow(flow) = &received.performative
                        && let Some(credit) = flow.link_credit
                    {
                        self.credit_end = flow.delivery_count.unwrap_or(0) + credit;
                    }
                    return Ok(received.performative);
                }
                Some(_) => {}
                None => {
                    let mut bytes = [0; 1024];
                    match self.stream.read(&mut bytes).await? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        length => self.script.handle_input(&bytes[..length]),
                    }
                    if let Some(reason) = self.script.broken() {
                        return Err(io::Error::other(reason.to_owned()));
                    }
                }
            }
        }
    }
}

fn unexpected(what: &impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("unexpected: {what:?}"))
}
