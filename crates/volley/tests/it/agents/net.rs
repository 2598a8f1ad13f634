//! Machines made of network namespaces, and wires between them that the test holds in its hands.
//!
//! ```text
//!  namespace 0: tun 10.77.0.1 ──┐
//!  namespace 1: tun 10.77.0.2 ──┼──▶ the test: lose it, delay it, cut this direction, or hand it on
//!  ...                          ┘
//! ```
//!
//! Real kernels on both sides, and every packet passes through one thread here. `tc netem` could
//! lose and delay as well, but many kernels are built without it, and it cannot cut one direction
//! between two. Namespaces have no names: they and their devices end with the last process in them,
//! also if the test is killed, so nothing is ever left behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PACKET_BYTES_MAX: usize = 2048;

/// How the wire from one machine to another is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// Share of packets that are lost, in percent.
    pub loss: u8,
    pub delay: Duration,
    /// Up to this much more, so that packets overtake each other.
    pub jitter: Duration,
    pub cut: bool,
}

pub struct Net {
    namespaces: Vec<File>,
    wires: Arc<Mutex<Vec<Vec<Wire>>>>,
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    switch: Option<JoinHandle<()>>,
}

pub fn address(machine: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(machine + 1).unwrap())
}

pub fn place(machine: usize, port: u16) -> SocketAddr {
    SocketAddr::from((address(machine), port))
}

impl Net {
    /// Machines without a wire's flaw; an error says what this computer does not let us do.
    pub fn new(machines: usize) -> Result<Net, String> {
        let made = |at| std::thread::spawn(move || machine(at)).join().expect("does not panic");
        let made: Result<Vec<(File, OwnedFd)>, String> = (0..machines).map(made).collect();
        let (namespaces, tuns): (Vec<File>, Vec<OwnedFd>) = made?.into_iter().unzip();
        let wires = Arc::new(Mutex::new(vec![vec![Wire::default(); machines]; machines]));
        let (lost, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let switch = Switch {
            tuns,
            wires: Arc::clone(&wires),
            lost: Arc::clone(&lost),
            stop: Arc::clone(&stop),
            waiting: BinaryHeap::new(),
            drawn: 0x9e37_79b9_7f4a_7c15,
            count: 0,
        };
        let switch = Some(std::thread::spawn(move || switch.run()));
        Ok(Net { namespaces, wires, lost, stop, switch })
    }

    /// Sets the wire from `from` to `to`, one direction of it, for all pairs at once.
    pub fn set(&self, wire: impl Fn(usize, usize) -> Wire) {
        let mut wires = self.wires.lock().unwrap();
        for (from, row) in wires.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(to, place)| *place = wire(from, to));
        }
    }

    pub fn heal(&self) {
        self.set(|_, _| Wire::default());
    }

    /// Packets that were lost or cut off so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// `command` will run on this machine.
    pub fn run_on(&self, machine: usize, command: &mut Command) {
        let namespace = self.namespaces[machine].as_raw_fd();
        // SAFETY: setns is a plain system call, allowed between fork and exec; the file lives as
        // long as `self`.
        unsafe {
            command.pre_exec(move || check(libc::setns(namespace, libc::CLONE_NEWNET)));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(switch) = self.switch.take() {
            let _ = switch.join();
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A new namespace with a device that leads here. Runs in a thread of its own, which it takes
/// along.
fn machine(at: usize) -> Result<(File, OwnedFd), String> {
    let wrong = |what: &str, error: io::Error| format!("{what}: {error}");
    // SAFETY: a plain system call; it moves this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
        .map_err(|error| wrong("no network namespaces", error))?;
    let tun = tun("net0").map_err(|error| wrong("no /dev/net/tun", error))?;
    let here = format!("{}/24", address(at));
    for args in [
        &["link", "set", "lo", "up"][..],
        &["addr", "add", &here, "dev", "net0"],
        &["link", "set", "net0", "up"],
    ] {
        let done =
            Command::new("ip").args(args).output().map_err(|error| wrong("no `ip`", error))?;
        if !done.status.success() {
            return Err(format!("ip {args:?}: {}", String::from_utf8_lossy(&done.stderr)));
        }
    }
    let namespace = File::open("/proc/thread-self/ns/net").map_err(|e| wrong("no namespace", e))?;
    Ok((namespace, tun))
}

fn tun(name: &str) -> io::Result<OwnedFd> {
    let path = c"/dev/net/tun";
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a C string; what comes back is checked and then owned here.
    let tun = unsafe {
        let opened = libc::open(path.as_ptr(), flags);
        check(opened)?;
        OwnedFd::from_raw_fd(opened)
    };
    // SAFETY: all fields are plain bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the descriptor is a TUN's, and the request lives until the call returns.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &request) })?;
    Ok(tun)
}

/// A packet under way: when it arrives, a number to keep the order, where, what. The next one is
/// the greatest.
type Waiting = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Switch {
    tuns: Vec<OwnedFd>,
    wires: Arc<Mutex<Vec<Vec<Wire>>>>,
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    waiting: BinaryHeap<Waiting>,
    drawn: u64,
    count: u64,
}

impl Switch {
    fn run(mut self) {
        let mut polls: Vec<libc::pollfd> =
            self.tuns.iter().map(|tun| readable(tun.as_raw_fd())).collect();
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let next = self.waiting.peek().map_or(20, |Reverse((due, ..))| {
                i32::try_from(due.saturating_duration_since(now).as_millis()).unwrap_or(20).min(20)
            });
            // SAFETY: the list is ours and as long as we say.
            unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, next) };
            for from in 0..self.tuns.len() {
                while let Some(packet) = receive(self.tuns[from].as_raw_fd()) {
                    self.take(from, packet);
                }
            }
            self.deliver();
        }
    }

    fn take(&mut self, from: usize, packet: Vec<u8>) {
        let machines = self.tuns.len();
        // IPv4 only; the last byte of the destination is the machine.
        let to = match packet.as_slice() {
            [first, ..] if first >> 4 == 4 => usize::from(packet[19]).wrapping_sub(1),
            _ => return,
        };
        if to >= machines {
            return;
        }
        let wire = self.wires.lock().unwrap()[from][to];
        if wire.cut || self.draw() % 100 < u64::from(wire.loss) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let more = self.draw() % (wire.jitter.as_micros() as u64 + 1);
        let due = Instant::now() + wire.delay + Duration::from_micros(more);
        self.count += 1;
        self.waiting.push(Reverse((due, self.count, to, packet)));
    }

    fn deliver(&mut self) {
        while let Some(Reverse((due, ..))) = self.waiting.peek() {
            if *due > Instant::now() {
                return;
            }
            if let Some(Reverse((_, _, to, packet))) = self.waiting.pop() {
                let tun = self.tuns[to].as_raw_fd();
                // SAFETY: the packet is ours; what the device does not take is lost, as on any
                // wire.
                unsafe { libc::write(tun, packet.as_ptr().cast(), packet.len()) };
            }
        }
    }

    /// xorshift: the same losses in every run, as far as the same packets come.
    fn draw(&mut self) -> u64 {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 7;
        self.drawn ^= self.drawn << 17;
        self.drawn >> 11
    }
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

fn receive(tun: RawFd) -> Option<Vec<u8>> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    // SAFETY: the buffer is as long as we say.
    let length = unsafe { libc::read(tun, packet.as_mut_ptr().cast(), packet.len()) };
    let length = usize::try_from(length).ok().filter(|length| *length >= 20)?;
    packet.truncate(length);
    Some(packet)
}
