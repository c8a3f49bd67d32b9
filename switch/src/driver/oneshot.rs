//! A oneshot channel for the reply to a command: the receiver can block, or await in any executor.

use super::error::DataplaneError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

enum State<T> {
    /// There is no result yet. The waker is that of the task that polled the reply last.
    Waiting(Option<Waker>),
    Complete(Result<T, DataplaneError>),
    /// The reply has returned the result.
    Consumed,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    completed: Condvar,
}

impl<T> Shared<T> {
    /// Ignores poisoning: the state is replaced as a whole, so it is consistent even if a holder of the lock
    /// panicked.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a call to the data plane. Dropping it does not cancel the call.
#[must_use = "call `wait`, or await it"]
pub struct Reply<T>(Arc<Shared<T>>);

/// The sending end of a [`Reply`]. If it is dropped without a result, the reply is
/// [`DataplaneError::Stopped`].
pub(super) struct Promise<T>(Option<Arc<Shared<T>>>);

pub(super) fn channel<T>() -> (Promise<T>, Reply<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Waiting(None)), completed: Condvar::new() });
    (Promise(Some(shared.clone())), Reply(shared))
}

impl<T> Promise<T> {
    pub(super) fn send(mut self, result: Result<T, DataplaneError>) {
        self.complete(result);
    }

    fn complete(&mut self, result: Result<T, DataplaneError>) {
        let Some(shared) = self.0.take() else { return };
        let previous = std::mem::replace(&mut *shared.lock(), State::Complete(result));
        shared.completed.notify_one();
        if let State::Waiting(Some(waker)) = previous {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.complete(Err(DataplaneError::Stopped));
    }
}

impl<T> Reply<T> {
    /// Blocks until the result arrives. Must not be called on the data-plane thread, that is, in a
    /// subscriber.
    ///
    /// # Errors
    ///
    /// The error of the command; [`DataplaneError::Stopped`] if the data plane ended before it ran.
    pub fn wait(self) -> Result<T, DataplaneError> {
        let mut state = self.0.lock();
        loop {
            match std::mem::replace(&mut *state, State::Consumed) {
                State::Complete(result) => return result,
                unfinished => *state = unfinished,
            }
            state = self.0.completed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, DataplaneError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Consumed) {
            State::Complete(result) => Poll::Ready(result),
            State::Waiting(_) => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            // Polled again after completion, which a future need not support.
            State::Consumed => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_the_result_or_an_error_if_the_promise_is_dropped() {
        let (promise, reply) = channel();
        let waiter = std::thread::spawn(|| reply.wait());
        promise.send(Ok(7));
        assert_eq!(waiter.join().unwrap(), Ok(7));

        let (promise, reply) = channel::<()>();
        drop(promise);
        assert_eq!(reply.wait(), Err(DataplaneError::Stopped));
    }

    #[test]
    fn can_be_awaited() {
        let (promise, mut reply) = channel();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut reply).poll(&mut context).is_pending());
        promise.send(Ok("done"));
        assert_eq!(Pin::new(&mut reply).poll(&mut context), Poll::Ready(Ok("done")));
    }
}
