//! The shell, in simulated time with a scripted resolver and dialer, and the real resolver against
//! a small name server.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::proto::xfer::Protocol;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::service::Dialed;
use super::super::*;
use super::*;

/// Answers from a script; what is not in it hangs for ever.
#[derive(Default)]
struct Scripted {
    answers: BTreeMap<Question, Result<Answer, LookupError>>,
    nodes: BTreeMap<SocketAddr, Hello>,
    dials: Mutex<Vec<SocketAddr>>,
}

impl Resolver for Scripted {
    fn lookup<'a>(
        &'a self,
        question: &'a Question,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        let answer = self.answers.get(question).cloned();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

impl Dialer for Scripted {
    fn probe(&self, address: SocketAddr) -> Dialed<Result<Hello, ProbeFailure>> {
        self.dials.lock().unwrap().push(address);
        let hello = self.nodes.get(&address).cloned();
        Box::pin(async move {
            match hello {
                Some(hello) => Ok(hello),
                None => std::future::pending().await,
            }
        })
    }

    fn join(&self, hello: Hello) -> Dialed<Result<(), String>> {
        let known = self.nodes.contains_key(&hello.gossip);
        Box::pin(async move { if known { Ok(()) } else { Err("gone".into()) } })
    }
}

/// CORE-119: a resolver that hangs and a seed that is dead hold nothing up, and the shell does not
/// run hot.
#[tokio::test]
async fn the_shell_joins_in_spite_of_a_hanging_resolver() {
    let mut settings = with_seeds([2, 3]);
    settings.names = vec![DnsName::parse("nodes.example.org", 9000).unwrap()];
    // Long enough that a join before it shows that nobody waited for DNS.
    settings.dns.lookup_deadline = secs(1);
    settings.look_again = ms(100);
    let scripted = Arc::new(Scripted {
        nodes: [(address(3), hello(3, address(3)))].into(),
        ..Scripted::default()
    });
    let (tell, inbox) = mpsc::channel(8);
    let (said, mut hear) = mpsc::unbounded_channel();
    let begun = Instant::now();
    let machine = Bootstrap::new(me(1, 1), settings, 1);
    let task = tokio::spawn(run(
        machine,
        Arc::clone(&scripted) as _,
        Arc::clone(&scripted) as _,
        inbox,
        move |notice| drop(said.send(notice)),
        |_| {},
    ));
    let notice = hear.recv().await.unwrap();
    assert!(matches!(notice, Notice::Joined { node: NodeId(3), .. }), "{notice:?}");
    // The lookup ends at its deadline, and is said.
    let notice = hear.recv().await.unwrap();
    assert!(
        matches!(notice, Notice::LookupFailed { why: LookupError::TimedOut, .. }),
        "{notice:?}"
    );
    assert!(begun.elapsed() >= secs(1));
    tokio::time::sleep(secs(1)).await;
    // A look at the dead seed takes its deadline of half a second and the pause; the member is left
    // in peace.
    let dials = scripted.dials.lock().unwrap().clone();
    let dead = dials.iter().filter(|to| **to == address(2)).count();
    let most = 2 + begun.elapsed().as_millis() / 600;
    assert!(dead >= 2 && dead as u128 <= most, "{dead}, at most {most}");
    assert_eq!(dials.len() - dead, 1);
    drop(tell);
    task.await.unwrap();
}

/// A name server with four names and a broken one.
async fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let request = Message::from_vec(&buffer[..length]).unwrap();
            let query = request.queries()[0].clone();
            let name = query.name().to_ascii();
            if name == "silent.test." {
                continue;
            }
            let mut reply = Message::new();
            reply
                .set_id(request.id())
                .set_message_type(MessageType::Response)
                .add_query(query.clone());
            let mut add = |ttl, data| {
                reply.add_answer(Record::from_rdata(query.name().clone(), ttl, data));
            };
            let host = |last| RData::A(A(Ipv4Addr::new(10, 0, 0, last)));
            let target = |port, text: &str| {
                RData::SRV(SRV::new(0, 0, port, Name::from_ascii(text).unwrap()))
            };
            match (name.as_str(), query.query_type()) {
                ("nodes.test.", RecordType::A) => {
                    add(60, host(1));
                    add(20, host(2));
                }
                ("one.test.", RecordType::A) => add(7, host(1)),
                ("two.test.", RecordType::A) => add(300, host(2)),
                ("_volley._udp.test.", RecordType::SRV) => {
                    add(50, target(9001, "one.test."));
                    add(50, target(9002, "two.test."));
                    add(50, target(9003, "missing.test."));
                }
                ("nodes.test." | "one.test." | "two.test.", _) => {}
                ("broken.test.", _) => {
                    reply.set_response_code(ResponseCode::ServFail);
                }
                _ => {
                    reply.set_response_code(ResponseCode::NXDomain);
                }
            }
            socket.send_to(&reply.to_vec().unwrap(), from).await.unwrap();
        }
    });
    at
}

/// CORE-119, CORE-120: SRV, A and AAAA with their shortest time to live; absence, failure and
/// silence told apart.
#[tokio::test]
async fn the_real_resolver_asks_a_name_server() {
    let mut config = ResolverConfig::new();
    config.add_name_server(NameServerConfig::new(name_server().await, Protocol::Udp));
    let builder = hickory_resolver::TokioResolver::builder_with_config(
        config,
        TokioConnectionProvider::default(),
    );
    let resolver = SystemResolver::with(builder, ms(600));
    let host = |name: &str| Question::Address { name: name.into(), port: 9000 };

    let mut answer = resolver.lookup(&host("nodes.test")).await.unwrap();
    answer.addresses.sort_unstable();
    assert_eq!(answer, Answer { addresses: vec![address(1), address(2)], ttl: Some(secs(20)) });

    let srv = Question::Srv { name: "_volley._udp.test".into() };
    let answer = resolver.lookup(&srv).await.unwrap();
    let at = |host, port| SocketAddr::from(([10, 0, 0, host], port));
    assert_eq!(answer.addresses, [at(1, 9001), at(2, 9002)]);
    assert_eq!(answer.ttl, Some(secs(7)));

    assert_eq!(resolver.lookup(&host("absent.test")).await, Err(LookupError::NoSuchName));
    let broken = resolver.lookup(&host("broken.test")).await;
    assert!(matches!(broken, Err(LookupError::Failed { .. })), "{broken:?}");
    let silent = resolver.lookup(&host("silent.test")).await;
    assert_eq!(silent, Err(LookupError::TimedOut));
}
