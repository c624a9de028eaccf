//! Bodies of messages on their way through, piece by piece as they come.
//!
//! Trailers are left out in both directions. An answer passes the run's redactor: of a piece, only what may be
//! the beginning of the key waits for the next one. A model's events end in ways that no key begins with.

use crate::redact::Stream;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What the cage sends.
pub(super) struct Asked(Incoming);

impl Asked {
    pub fn new(body: Incoming) -> Self {
        Self(body)
    }
}

type Piece = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

fn next(
    body: &mut Incoming,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, hyper::Error>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}

impl Body for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Piece {
        next(&mut self.0, context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// What the cage gets.
pub(super) enum Answer {
    /// Of the other side; none once it has ended.
    Theirs(Option<Incoming>, Stream),
    /// A word of ours.
    Ours(Option<Bytes>),
}

impl Answer {
    /// As it comes from the other side, without the key.
    pub fn of(body: Incoming, stream: Stream) -> Self {
        // One without any body must be told as such from the start.
        let body = Some(body).filter(|body| !body.is_end_stream());
        Self::Theirs(body, stream)
    }

    /// A word of ours.
    pub fn ours(text: String) -> Self {
        Self::Ours(Some(text.into()))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Piece {
        let (body, stream) = match &mut *self {
            Self::Ours(text) => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Theirs(body, stream) => (body, stream),
        };
        while let Some(open) = body {
            let mut out = Vec::new();
            match ready!(next(open, context)) {
                Some(Ok(piece)) => stream.push(&piece, &mut out),
                Some(Err(error)) => {
                    *body = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    *body = None;
                    stream.finish(&mut out);
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ours(None) | Self::Theirs(None, _))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours(Some(text)) => SizeHint::with_exact(text.len() as u64),
            Self::Ours(None) | Self::Theirs(None, _) => SizeHint::with_exact(0),
            // What is taken out makes it shorter or longer.
            Self::Theirs(Some(_), _) => SizeHint::new(),
        }
    }
}
