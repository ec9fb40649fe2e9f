//! AMQP over WebSocket: binary messages as one stream of bytes (RFC 6455; OASIS AMQP WebSocket Binding 1.0).
//!
//! Invariant: what is read is the payload of the binary messages in their order, however they were cut; nothing larger
//! than one message and one piece of output is held.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::ProtocolError,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// Largest message in bytes, unless two of the largest AMQP frames are more. Clients send one or a few frames in each.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of output in one message.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Room for input that is not a whole frame yet, in bytes; more is taken as frames need it.
const READ_BYTES: usize = 8 << 10;

/// A WebSocket as a stream of bytes.
#[derive(Debug)]
pub(crate) struct ByteStream<S> {
    socket: WebSocketStream<S>,
    input: Bytes,
    /// The peer broke a rule and was told: nothing more is read.
    broken: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ByteStream<S> {
    /// The server's end of a connection that has been upgraded. `read` has come already.
    pub(crate) async fn new(stream: S, read: Bytes, message_bytes_max: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(2 * PIECE_BYTES_MAX)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        let socket =
            WebSocketStream::from_partially_read(stream, read.into(), Role::Server, Some(config)).await;
        Self { socket, input: Bytes::new(), broken: false }
    }

    /// The next payload; empty at the end.
    fn poll_payload(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            let Some(message) = ready!(Pin::new(&mut self.socket).poll_next(cx)) else {
                return Poll::Ready(Ok(Bytes::new()));
            };
            match message {
                Ok(Message::Binary(payload)) if payload.is_empty() => {}
                Ok(Message::Binary(payload)) => return Poll::Ready(Ok(payload)),
                Ok(Message::Text(_)) => {
                    return Poll::Ready(Err(self.refuse(cx, CloseCode::Unsupported, "AMQP is binary")));
                }
                // Pings are answered below, and after a close there comes the end.
                Ok(_) => {}
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Poll::Ready(Ok(Bytes::new())),
                Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                    return Poll::Ready(Ok(Bytes::new()));
                }
                Err(Error::Io(error)) => return Poll::Ready(Err(error)),
                Err(error @ Error::Capacity(_)) => {
                    return Poll::Ready(Err(self.refuse(cx, CloseCode::Size, &error.to_string())));
                }
                Err(error) => {
                    return Poll::Ready(Err(self.refuse(cx, CloseCode::Protocol, &error.to_string())));
                }
            }
        }
    }

    /// Tells the peer which rule it broke, as far as the socket takes it at once.
    fn refuse(&mut self, cx: &mut Context<'_>, code: CloseCode, reason: &str) -> io::Error {
        self.broken = true;
        // A reason has at most 123 bytes, and the texts of the library are shorter.
        let reason = reason.get(..123).unwrap_or(reason).into();
        let close = Message::Close(Some(CloseFrame { code, reason }));
        let mut socket = Pin::new(&mut self.socket);
        // The connection ends either way.
        if matches!(socket.as_mut().poll_ready(cx), Poll::Ready(Ok(())))
            && socket.as_mut().start_send(close).is_ok()
        {
            drop(socket.poll_flush(cx));
        }
        io::Error::new(io::ErrorKind::InvalidData, format!("WebSocket closed with code {}", u16::from(code)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ByteStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.input.is_empty() && !this.broken {
            this.input = ready!(this.poll_payload(cx))?;
        }
        let count = this.input.len().min(buffer.remaining());
        buffer.put_slice(&this.input.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ByteStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.socket);
        ready!(socket.as_mut().poll_ready(cx)).map_err(to_io)?;
        let mut piece = bytes;
        let piece = piece.copy_to_bytes(bytes.len().min(PIECE_BYTES_MAX));
        let count = piece.len();
        socket.start_send(Message::Binary(piece)).map_err(to_io)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(to_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(cx).map_err(to_io)
    }
}

fn to_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests;
