//! A oneshot channel for the reply to a command: the receiver can block, or await in any executor.

use super::handle::DataplaneError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

enum State<T> {
    Waiting(Option<Waker>),
    Answered(Result<T, DataplaneError>),
    Taken,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    answered: Condvar,
}

impl<T> Shared<T> {
    /// Ignores poisoning: the state is replaced as a whole, so it is consistent even if a holder of the lock
    /// panicked.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a call to the data plane. Dropping it does not cancel the call.
#[must_use = "wait for the answer, or await it"]
pub struct Reply<T>(Arc<Shared<T>>);

/// The sending end of a [`Reply`]. If it is dropped without an answer, the reply is
/// [`DataplaneError::Stopped`].
pub(super) struct Promise<T>(Option<Arc<Shared<T>>>);

pub(super) fn channel<T>() -> (Promise<T>, Reply<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Waiting(None)), answered: Condvar::new() });
    (Promise(Some(shared.clone())), Reply(shared))
}

impl<T> Promise<T> {
    pub fn answer(mut self, answer: Result<T, DataplaneError>) {
        self.complete(answer);
    }

    fn complete(&mut self, answer: Result<T, DataplaneError>) {
        let Some(shared) = self.0.take() else { return };
        let before = std::mem::replace(&mut *shared.lock(), State::Answered(answer));
        shared.answered.notify_one();
        if let State::Waiting(Some(waker)) = before {
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
    /// Blocks until the answer arrives. Must not be called on the data-plane thread, that is, in a
    /// subscriber.
    ///
    /// # Errors
    ///
    /// The error of the command; [`DataplaneError::Stopped`] if the data plane ended before it ran.
    pub fn wait(self) -> Result<T, DataplaneError> {
        let mut state = self.0.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(answer) => return answer,
                waiting => *state = waiting,
            }
            state = self.0.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, DataplaneError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Waiting(_) => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            // Polled again after completion, which a future need not support.
            State::Taken => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_once_or_reports_that_no_answer_will_come() {
        let (promise, reply) = channel();
        let waiter = std::thread::spawn(|| reply.wait());
        promise.answer(Ok(7));
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
        promise.answer(Ok("done"));
        assert_eq!(Pin::new(&mut reply).poll(&mut context), Poll::Ready(Ok("done")));
    }
}
