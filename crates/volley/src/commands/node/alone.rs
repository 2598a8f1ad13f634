//! A node that finds nobody: what is said of it, and what to do. It goes on trying by itself.

use std::convert::Infallible;
use std::time::Duration;

/// For how long nobody may answer before it is said.
const ALONE_FOR: Duration = Duration::from_secs(2);

/// Somebody at an address of whom a node hears nothing.
async fn who_is_there(others: &[String]) -> Option<String> {
    for other in others {
        let listens = async |address: String| {
            let connecting = tokio::net::TcpStream::connect(address);
            matches!(tokio::time::timeout(ALONE_FOR, connecting).await, Ok(Ok(_)))
        };
        if !listens(other.clone()).await {
            continue;
        }
        let below = other.rsplit_once(':').and_then(|(host, port)| {
            Some(format!("{host}:{}", port.parse::<u16>().ok()?.checked_sub(1)?))
        });
        return Some(match below {
            Some(below) if listens(below.clone()).await => format!(
                "somebody listens at {other}, and does not answer as a member of a cluster; trying on. Is that the \
                 port of a manager's ledger? The manager itself listens one below, at {below}"
            ),
            _ => format!(
                "somebody listens at {other}, and does not answer as a member of a cluster; trying on. Is that a \
                 manager's port, and does the network let UDP to it through, too?"
            ),
        });
    }
    None
}

/// Says so if nobody answers where others should be, and when somebody does after all. It goes on
/// trying by itself. `needs_others`: it is of no use alone.
pub async fn say_if_alone(
    member: &node::Member,
    others: Vec<String>,
    needs_others: bool,
) -> Infallible {
    let is_there = |entry: &membership::Entry| {
        matches!(entry.state, membership::State::Confirmed | membership::State::Suspect)
    };
    let mut told = others.is_empty() && !needs_others;
    loop {
        tokio::time::sleep(ALONE_FOR).await;
        let is_alone = !member.view().entries.iter().any(is_there);
        let refused = member.search().refused;
        if let Some((address, refusal)) = refused.filter(|_| is_alone && !told) {
            eprintln!(
                "volley: {address} answers, and this node cannot join it: {refusal}; trying on{}",
                remedy(&refusal)
            );
            told = true;
        } else if is_alone && !told && others.is_empty() {
            eprintln!(
                "volley: this worker knows no manager, and none will give it work: say where they are with --seed \
                 MANAGER, --dns NAME or --join MANAGER"
            );
            told = true;
        } else if is_alone && !told {
            let there = who_is_there(&others).await;
            let others = others.join(", ");
            let text = there.unwrap_or_else(|| {
                format!(
                    "nobody answers at {others}; trying on. Are they up, and does the network let TCP and UDP to these \
                     ports through?"
                )
            });
            eprintln!("volley: {text}");
            told = true;
        } else if !is_alone {
            if told && !others.is_empty() {
                eprintln!("volley: others answer now");
            }
            return std::future::pending().await;
        }
    }
}

/// What to do about a refusal, where it can be said.
fn remedy(refusal: &trust::Refusal) -> String {
    match refusal {
        trust::Refusal::Datacenter { initiator, from, to, .. } => format!(
            ". This certificate is for the datacenter `{from}`, and the others are of `{to}`: issue one with `volley \
             certs issue --role {initiator} --datacenter {to}`, or name nodes of `{from}` with --seed"
        ),
        trust::Refusal::UnknownAuthority => {
            ". The certificates are of different CAs: issue this one with the CA of that cluster"
                .to_owned()
        }
        _ => ". `volley certs show` tells what is in a certificate".to_owned(),
    }
}
