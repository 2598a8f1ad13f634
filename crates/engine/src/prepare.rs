//! What is done once, before anything is measured: names become addresses, proxies are found
//! (EXEC-20, EXEC-23).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use plan::IpFamily;

use crate::program::Program;
use client::{LazyTls, OriginTable, Proxies, ProxyRules, client_config};

pub struct Prepared {
    /// By workflow; the plan's frame comes last.
    pub workflows: Vec<Ready>,
}

#[derive(Default)]
pub struct Ready {
    /// By number of the program's origins; empty for those that this workflow does not use.
    pub addresses: Vec<Vec<SocketAddr>>,
    pub proxies: Arc<Proxies>,
    pub tls: Arc<LazyTls>,
    /// Why this workflow cannot start.
    pub error: Option<String>,
}

impl Prepared {
    pub async fn new(program: &Program) -> Prepared {
        let mut cache = BTreeMap::new();
        let mut workflows = Vec::new();
        for index in 0..=program.workflows.len() {
            workflows.push(prepare(program, index, &mut cache).await);
        }
        Prepared { workflows }
    }
}

type Key = (String, u16, u8, Vec<(String, String)>);
type Cache = BTreeMap<Key, Result<Vec<SocketAddr>, String>>;

async fn prepare(program: &Program, index: usize, cache: &mut Cache) -> Ready {
    let workflow = program.workflow(index);
    let http = &workflow.http;
    let mut ready = Ready::default();
    match Proxies::resolve(ProxyRules::of_process(http.proxy.as_ref())).await {
        Ok(proxies) => ready.proxies = Arc::new(proxies),
        Err(failure) => ready.error = Some(failure.to_string()),
    }
    let secure = |id: &usize| program.origins[*id].scheme() == "https";
    if workflow.warm_origins.iter().any(secure) {
        let config = ready.tls.get_or_init(|| client_config(&http.tls, http.version));
        if let Err(error) = config {
            ready.error = Some(error.clone());
        }
    }
    let table = OriginTable::new(http, program.unix.clone()).through(ready.proxies.clone());
    for (id, url) in program.origins.iter().enumerate() {
        let mut addresses = Vec::new();
        if workflow.warm_origins.contains(&id) {
            match resolve(&table, url, http.ip, &http.hosts, cache).await {
                Ok(found) => addresses = found,
                Err(error) => ready.error = Some(error),
            }
        }
        ready.addresses.push(addresses);
    }
    ready
}

/// One look-up per name, however many workflows use it.
async fn resolve(
    table: &OriginTable,
    url: &url::Url,
    family: IpFamily,
    hosts: &[(String, String)],
    cache: &mut Cache,
) -> Result<Vec<SocketAddr>, String> {
    let origin = table.intern(url).map_err(|failure| failure.to_string())?;
    if origin.proxy.is_some() {
        return Ok(Vec::new());
    }
    let key = (origin.host.clone(), origin.port, family as u8, hosts.to_vec());
    if let Some(known) = cache.get(&key) {
        return known.clone();
    }
    let result = table.resolve(&origin).await;
    let result = result.map(|()| origin.addresses()).map_err(|failure| failure.to_string());
    cache.insert(key, result.clone());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_once_for_all_workflows() {
        let text = "target: http://localhost:9
workflows:
  - { name: a, steps: [ { get: / } ] }
  - { name: b, steps: [ { get: /x }, { get: /y } ] }
";
        let options = plan::ReadOptions::new(&|_| None);
        let plan = plan::read_str(text, plan::Format::Yaml, ".".as_ref(), &options).unwrap();
        let program = Program::compile(&plan, &crate::secrets::from_environment()).unwrap();
        let mut cache = Cache::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (a, b) =
                (prepare(&program, 0, &mut cache).await, prepare(&program, 1, &mut cache).await);
            assert_eq!(a.addresses, b.addresses);
            assert!(!a.addresses[0].is_empty());
        });
        assert_eq!(cache.len(), 1);
    }
}
