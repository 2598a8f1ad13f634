//! `--restart`: a parent that starts the node, reaps it, and starts it again when it has crashed.
//!
//! The parent does nothing else: it holds no folder, opens no port and has one thread. The child is
//! the node; it takes the lock of the data folder and begins a new life in it (its boot rises),
//! which tells the managers that the one before is gone. Signals are passed on to the child, which
//! dies with its parent.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use report::ExitCode;

use crate::failure::Failure;

/// Set for the child: the pid of its parent.
const PARENT: &str = "VOLLEY_RESTART_PARENT";
/// The wait before the first start after a crash.
const WAIT: Duration = Duration::from_millis(100);
/// Each crash in a row doubles the wait up to this.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// A node that has run for so long has not crashed in a row.
const STEADY: Duration = Duration::from_secs(60);
const SIGNALS: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGCHLD];

/// What has to be done when the node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The parent ends too, with this code.
    End(i32),
    /// It crashed; it is started again after this time.
    Again(Duration),
}

/// How often in a row the node has crashed.
#[derive(Debug, Default)]
struct Crashes {
    in_a_row: u32,
}

impl Crashes {
    /// `stopping`: it was told to end.
    fn ended(&mut self, status: ExitStatus, ran: Duration, stopping: bool) -> Next {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        let wanted = status.code().and_then(ExitCode::of_number).is_some_and(is_final);
        if stopping || wanted {
            return Next::End(code);
        }
        if ran >= STEADY {
            self.in_a_row = 0;
        }
        let wait = WAIT.saturating_mul(1 << self.in_a_row.min(16)).min(WAIT_MAX);
        self.in_a_row = self.in_a_row.saturating_add(1);
        Next::Again(wait)
    }
}

/// Whether a node that has ended with this code stays down: it was told to, or starting it again
/// does not help.
fn is_final(code: ExitCode) -> bool {
    matches!(
        code,
        ExitCode::Passed
            | ExitCode::Usage
            | ExitCode::InvalidPlan
            | ExitCode::Interrupted
            | ExitCode::NodeRefused
            | ExitCode::DiskRefused
    )
}

/// Whether this process is the child of such a parent, and so the node itself.
pub fn is_child() -> bool {
    let parent = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok());
    parent == Some(std::os::unix::process::parent_id())
}

/// Runs the same command as a child until it ends for good, and ends with the child's own number,
/// whatever it is.
pub fn run() -> ExitCode {
    match supervise() {
        Ok(number) => std::process::exit(number),
        Err(error) => Failure::failed(format!("the node cannot be started: {error}")).tell(),
    }
}

fn supervise() -> io::Result<i32> {
    // Blocked before the first child, so that no signal is missed; they are waited for below.
    let (set, before) = block()?;
    let mut crashes = Crashes::default();
    let mut stopping = false;
    loop {
        let began = Instant::now();
        let mut child = start(before)?;
        let pid = child.id();
        if crashes.in_a_row > 0 {
            eprintln!("volley: started again as process {pid}");
        }
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if let Some(signal) = wait(&set, None).filter(|signal| *signal != libc::SIGCHLD) {
                stopping |= signal != libc::SIGHUP;
                // SAFETY: the child was not reaped yet, so the pid is its own.
                unsafe { libc::kill(pid.cast_signed(), signal) };
            }
        };
        match crashes.ended(status, began.elapsed(), stopping) {
            Next::End(code) => return Ok(code),
            Next::Again(pause) => {
                eprintln!("volley: the node has ended ({status}); again in {pause:?}");
                let until = Instant::now() + pause;
                while let Some(left) = until.checked_duration_since(Instant::now()) {
                    let signal = wait(&set, Some(left));
                    if signal.is_some_and(|signal| ![libc::SIGCHLD, libc::SIGHUP].contains(&signal))
                    {
                        return Ok(ExitCode::Interrupted.number());
                    }
                }
            }
        }
    }
}

/// The same program with the same arguments.
fn start(mask: libc::sigset_t) -> io::Result<Child> {
    let parent = std::process::id();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(PARENT, parent.to_string());
    // A group of its own: a Ctrl-C at the terminal reaches the parent alone, which passes it on
    // once.
    command.process_group(0);
    // SAFETY: only calls that may be made between fork and exec, on values that were made before.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before that was set.
            if libc::getppid() != parent.cast_signed() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        });
    }
    command.spawn()
}

/// Blocks the signals that are waited for. Gives their set, and what was blocked before.
fn block() -> io::Result<(libc::sigset_t, libc::sigset_t)> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the set before anything reads it; `pthread_sigmask` fills the
    // other.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) {
            0 => Ok((set.assume_init(), before.assume_init())),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The next signal, or none within this time.
fn wait(set: &libc::sigset_t, within: Option<Duration>) -> Option<i32> {
    // SAFETY: both structures are whole and live for the call.
    let signal = unsafe {
        match within {
            None => libc::sigwaitinfo(set, std::ptr::null_mut()),
            Some(within) => {
                let time = libc::timespec {
                    tv_sec: libc::time_t::try_from(within.as_secs()).unwrap_or(libc::time_t::MAX),
                    tv_nsec: within.subsec_nanos().into(),
                };
                libc::sigtimedwait(set, std::ptr::null_mut(), &raw const time)
            }
        }
    };
    (signal > 0).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    /// A node that was told to end, was refused, or whose disk cannot be trusted stays down:
    /// started again it would depose its copy, which would come back and depose it, for ever; or
    /// read back what never became durable.
    #[test]
    fn what_ended_on_purpose_or_was_refused_is_not_started_again() {
        let short = Duration::from_millis(5);
        for code in [
            ExitCode::Passed,
            ExitCode::Interrupted,
            ExitCode::Usage,
            ExitCode::InvalidPlan,
            ExitCode::NodeRefused,
            ExitCode::DiskRefused,
        ] {
            let code = code.number();
            let next = Crashes::default().ended(exited(code), short, false);
            assert_eq!(next, Next::End(code), "{code}");
        }
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        assert_eq!(Crashes::default().ended(killed, short, true), Next::End(137), "while it ends");
        assert_eq!(Crashes::default().ended(killed, short, false), Next::Again(WAIT));
        assert_eq!(
            Crashes::default().ended(exited(101), short, false),
            Next::Again(WAIT),
            "a panic"
        );
        assert_eq!(
            Crashes::default().ended(exited(ExitCode::Failed.number()), short, false),
            Next::Again(WAIT)
        );
    }

    #[test]
    fn crashes_in_a_row_are_waited_for_longer_and_longer() {
        let killed = ExitStatus::from_raw(libc::SIGSEGV);
        let mut crashes = Crashes::default();
        let mut last = Duration::ZERO;
        for _ in 0..40 {
            let Next::Again(wait) = crashes.ended(killed, Duration::from_secs(1), false) else {
                panic!("it is started again");
            };
            assert!(wait >= last && wait <= WAIT_MAX, "{wait:?} after {last:?}");
            last = wait;
        }
        assert_eq!(last, WAIT_MAX);
        assert_eq!(crashes.ended(killed, STEADY, false), Next::Again(WAIT), "it ran well before");
    }
}
