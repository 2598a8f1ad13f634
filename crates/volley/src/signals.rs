//! Ctrl-C, SIGTERM and, for runs, the end of the terminal (SIGHUP): the first asks for a graceful
//! end with a summary, the second for an end at once. To a node SIGHUP means new certificates.

use std::io::IsTerminal;

use report::ExitCode;

/// Calls `each` for every signal from now on, from a thread of its own; the third ends the process.
pub fn on_interrupt(each: impl Fn() + Send + 'static) {
    listen(false, each);
}

/// The same, and the end of the terminal is one, too.
pub fn on_interrupt_or_hangup(each: impl Fn() + Send + 'static) {
    // `nohup` says that the end of the terminal is none of ours.
    listen(!is_ignored(libc::SIGHUP), each);
}

fn listen(hangup_counts: bool, each: impl Fn() + Send + 'static) {
    let listen = async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        let mut hangup = match hangup_counts {
            true => signal(SignalKind::hangup()).ok(),
            false => None,
        };
        for count in 1.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = hung_up(&mut hangup) => leave_terminal(),
            }
            if count >= 3 {
                dashboard::restore_terminal();
                std::process::exit(ExitCode::Interrupted.number());
            }
            each();
        }
    };
    let body = move || {
        if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
            runtime.block_on(listen);
        }
    };
    // Without the thread, signals do what they do by default: they end the process.
    let _ = std::thread::Builder::new().name("volley-signals".to_owned()).spawn(body);
}

async fn hung_up(hangup: &mut Option<tokio::signal::unix::Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid value, and the call only fills it in.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

/// A terminal that is gone takes no words: what is said from now on goes nowhere, and files get
/// theirs.
fn leave_terminal() {
    use std::os::fd::AsRawFd;
    let Ok(nowhere) = std::fs::OpenOptions::new().write(true).open("/dev/null") else { return };
    for (fd, is_terminal) in [
        (libc::STDOUT_FILENO, std::io::stdout().is_terminal()),
        (libc::STDERR_FILENO, std::io::stderr().is_terminal()),
    ] {
        if is_terminal {
            // SAFETY: both descriptors are open; the old one is closed by the call.
            unsafe { libc::dup2(nowhere.as_raw_fd(), fd) };
        }
    }
}
