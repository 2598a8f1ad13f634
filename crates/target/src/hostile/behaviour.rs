//! The ways to be bad, and what a good client makes of each.
//!
//! "Error" below means: the request is counted as failed with that kind, the connection is given
//! up, the run goes on. "Answer" means: there is nothing wrong, however odd it looks.

macro_rules! behaviours {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One way to be bad; each says what a good client does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Behaviour {
            $($(#[$doc])* $name,)*
        }

        impl Behaviour {
            /// All of them, for tests that must survive any.
            pub const ALL: &[Behaviour] = &[$(Behaviour::$name,)*];
        }
    };
}

behaviours! {
    /// The port is closed. Error `refused`, at once, without waiting for any timeout.
    Refuse,
    /// Accepts, reads, says nothing. Error `timeout` after the request's timeout, not earlier; the
    /// run ends on time although the request never does.
    NeverAnswer,
    /// Closes before a byte was read. Error `reset`; no endless retries.
    CloseAtOnce,
    /// Closes in the middle of the head. Error `reset`; the half head is not taken for an
    /// answer.
    CloseMidHead,
    /// Promises 1000 bytes, sends 100, closes. Error `reset`; never counted as a complete answer.
    CloseMidBody,
    /// Bytes that are not HTTP, then closes. Error `protocol`, with a readable sample of it.
    Garbage,
    /// Chunks without end. Error `body` at the body limit or `timeout`; memory stays bounded.
    EndlessChunked,
    /// A body that ends with the connection, which never ends. As `EndlessChunked`.
    EndlessUntilClose,
    /// One header after the other, without an empty line. Error `protocol` at the limit of heads,
    /// in time that grows with the bytes read, not with their square.
    EndlessHeader,
    /// A correct answer whose head is 1 MB. Error `protocol` at the limit of heads, or an answer;
    /// no quadratic re-parsing while it arrives.
    HugeHead,
    /// Chunks that are longer than they say. Error `protocol` or `body`; the rest of a chunk is not
    /// taken for the next answer.
    WrongChunkSize,
    /// A chunk size that is no number. Error `protocol` or `body`.
    GarbageChunkSize,
    /// Two content-lengths that disagree. Error `protocol`: which one to believe is how answers are
    /// smuggled (RFC 9112, 6.3).
    TwoContentLengths,
    /// `content-length: -1`. Error `protocol`; no wrap-around to a huge number.
    NegativeContentLength,
    /// Status 99999. Error `protocol`; no panic and no index out of a table of statuses.
    Status99999,
    /// A correct answer of 20 bytes, one byte each 50 ms. Answer after about a second, or
    /// `timeout`; each byte must not begin the timeout anew, nor wake more than its own user.
    SlowDrip,
    /// Answers, says keep-alive, closes without a word. Answer each time: a connection found closed
    /// before a byte was sent on it is replaced silently.
    CloseAfterEach,
    /// Answers once, then closes when the second request has been read. The second request was
    /// sent, so it is counted; an idempotent one may be repeated once on a new connection, others
    /// are an error `reset`.
    CloseOnReuse,
    /// Promises 1000 bytes, sends 100, resets the connection. Error `reset`.
    ResetMidBody,
    /// 100 and 103 before the real answer. Answer 200; the interim ones are not counted as answers.
    Interim,
    /// HTTP/1.0 without a length. Answer: the body ends with the connection, which is not used
    /// again.
    Http10,
    /// Line ends without a carriage return. Answer: a recipient may accept them (RFC 9112, 2.2).
    BareLineFeed,
    /// A body of 1 MB that unpacks to 1 GB. Error `body` at the body limit where the body is
    /// needed, an answer where it is not; memory stays bounded.
    GzipBomb,
    /// Says gzip, is not. Error `body` where the body is needed, else an answer.
    BadGzip,
    /// Redirects to itself. Error `redirect` after the limit of redirects (10), each of them
    /// counted as a request.
    RedirectLoop,
    /// Redirects to `ftp:`. Error `redirect`; nothing else is opened.
    RedirectToScheme,
    /// Redirects to another name (`localhost`) of the same server, where `/landed` answers 200.
    /// Answer; credentials and cookies stay behind (see `last_head`).
    RedirectToHost,
    /// 204 with `content-length: 10` and no body. Answer at once; the ten bytes are not waited for,
    /// and the connection is used again.
    NoContentWithLength,
    /// 304 likewise.
    NotModifiedWithLength,
    /// `content-length: 1000`, and to HEAD no body. Answer at once to HEAD, 1000 bytes to GET.
    HeadWithLength,
}
