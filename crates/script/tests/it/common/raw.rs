//! A server that answers exactly the bytes it is told to, and remembers exactly the bytes it got.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does with a request.
pub enum Reply {
    /// Status line and headers without the length, and a body.
    Say(&'static str, Vec<u8>),
    /// These bytes, and then the end of the connection.
    Exactly(&'static str),
    /// Nothing at all, for ever.
    Nothing,
    /// The connection is reset.
    Reset,
}

pub struct Raw {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    /// `answer` gets the path with its query, and the whole request.
    pub fn new(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, recorder) = (Arc::new(answer), seen.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, recorder) = (answer.clone(), recorder.clone());
                std::thread::spawn(move || serve(stream, &*answer, &recorder));
            }
        });
        Raw { address, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &(dyn Fn(&str, &str) -> Reply + Send + Sync),
    recorder: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        recorder.lock().unwrap().push(request.clone());
        match answer(&path, &request) {
            Reply::Say(head, body) => {
                let length = body.len();
                let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n");
                let mut bytes = head.into_bytes();
                if !request.starts_with("HEAD ") {
                    bytes.extend_from_slice(&body);
                }
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            Reply::Exactly(bytes) => {
                let _ = stream.write_all(bytes.as_bytes());
                return;
            }
            Reply::Nothing => loop {
                std::thread::park();
            },
            Reply::Reset => {
                // Closing with bytes unread, and none to linger for, resets.
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                use std::os::fd::AsRawFd;
                // SAFETY: the option's value is given with its size.
                unsafe {
                    libc::setsockopt(
                        stream.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        (&raw const linger).cast(),
                        size_of::<libc::linger>() as libc::socklen_t,
                    );
                }
                return;
            }
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head).ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    head.extend_from_slice(&body);
    Some(String::from_utf8_lossy(&head).into_owned())
}
