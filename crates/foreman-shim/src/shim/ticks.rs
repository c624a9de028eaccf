//! A steady clock that costs one wake-up a tick.
//!
//! The runtime's own timers wake a worker up to three times for a tick of a second, because its wheel
//! hands a timer down from level to level. A supervisor that waits for its agent does nothing else, and
//! there may be many of them, so this clock is a timer of the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Ticks that were missed count as one.
#[derive(Debug)]
pub(super) struct Ticks {
    timer: AsyncFd<OwnedFd>,
}

impl Ticks {
    /// A clock whose first tick comes after one period.
    ///
    /// # Errors
    /// When there is no descriptor left, or no runtime.
    pub(super) fn every(period: Duration) -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let timer = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the `AsyncFd` owns the descriptor, which therefore stays open and the same until it
        // is taken off the reactor; nothing here takes it out.
        let timer = unsafe { AsyncFd::register(timer) }?;
        let ticks = Self { timer };
        ticks.set_period(period)?;
        Ok(ticks)
    }

    /// The next tick comes after this period, and so do those that follow.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(super) fn set_period(&self, period: Duration) -> io::Result<()> {
        let period = libc::timespec {
            tv_sec: period
                .as_secs()
                .try_into()
                .map_err(|_| io::ErrorKind::InvalidInput)?,
            tv_nsec: period.subsec_nanos().into(),
        };
        let every = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        let timer = self.timer.get_ref().as_raw_fd();
        // SAFETY: `every` lives through the call, which only reads it; nothing is written to the null.
        let set =
            unsafe { libc::timerfd_settime(timer, 0, &raw const every, std::ptr::null_mut()) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits for the next tick.
    ///
    /// # Errors
    /// When the timer cannot be read.
    pub(super) async fn tick(&self) -> io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            let mut ticks = [0; 8];
            match nix::unistd::read(self.timer.get_ref(), &mut ticks) {
                Ok(_) => {
                    // All ticks were taken: without this the next wait would try to read once more.
                    ready.clear_ready();
                    return Ok(());
                }
                Err(nix::Error::EAGAIN) => ready.clear_ready(),
                Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn each_period_is_one_tick_and_a_shorter_one_counts_at_once() {
        let ticks = Ticks::every(Duration::from_millis(10)).unwrap();
        let clock = Instant::now();
        for _ in 0..3 {
            ticks.tick().await.unwrap();
        }
        assert!(clock.elapsed() >= Duration::from_millis(25));
        ticks.set_period(Duration::from_secs(3_600)).unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(30), ticks.tick()).await;
        assert!(waited.is_err(), "a longer period counts at once, too");
        ticks.set_period(Duration::from_millis(1)).unwrap();
        tokio::time::timeout(Duration::from_secs(20), ticks.tick())
            .await
            .unwrap()
            .unwrap();
    }
}
