//! How long a call may take before it is answered. Most have one deadline; those that bring much
//! with them, such as the upload of a plan with its files, are bounded by their own handlers and
//! named in the configuration.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;
use tonic::Status;
use tonic::codegen::{Service, http};
use tower::Layer;

#[derive(Clone)]
pub(super) struct Deadlines {
    pub within: Duration,
    /// Paths of calls that have no deadline here.
    pub long: Vec<&'static str>,
}

impl<S> Layer<S> for Deadlines {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { inner, deadlines: self.clone() }
    }
}

#[derive(Clone)]
pub(super) struct Timed<S> {
    inner: S,
    deadlines: Deadlines,
}

impl<S, Q, B> Service<http::Request<Q>> for Timed<S>
where
    S: Service<http::Request<Q>, Response = http::Response<B>>,
    S::Future: Send + 'static,
    B: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Q>) -> Self::Future {
        let is_long = self.deadlines.long.contains(&request.uri().path());
        let within = self.deadlines.within;
        let answering = self.inner.call(request);
        if is_long {
            return Box::pin(answering);
        }
        Box::pin(async move {
            match timeout(within, answering).await {
                Ok(answered) => answered,
                Err(_) => {
                    let why = format!("no answer within {} s", within.as_secs());
                    Ok(Status::deadline_exceeded(why).into_http())
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never answers.
    struct Silent;

    impl Service<http::Request<()>> for Silent {
        type Response = http::Response<String>;
        type Error = std::convert::Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<()>) -> Self::Future {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_has_its_deadline_unless_its_handler_has_one() {
        let within = Duration::from_secs(30);
        let mut timed = Deadlines { within, long: vec!["/Jobs/Put"] }.layer(Silent);
        let ask = |path: &str| http::Request::builder().uri(path).body(()).unwrap();
        let answer = timed.call(ask("/Jobs/Status")).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4");
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, timed.call(ask("/Jobs/Put"))).await.is_err(), "it goes on");
    }
}
