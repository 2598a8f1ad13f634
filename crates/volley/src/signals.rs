//! Ctrl-C and SIGTERM: the first asks for a graceful end with a summary, the second for an end at
//! once.

/// Calls `each` for every signal from now on, from a thread of its own; the third ends the process.
use report::ExitCode;
pub fn on_interrupt(each: impl Fn() + Send + 'static) {
    let listen = async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        for count in 1.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
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
